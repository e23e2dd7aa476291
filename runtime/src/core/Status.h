//===- Status.h - The one error type of the runtime -------------*- C++ -*-===//
//
// Every fallible function of the runtime returns a `Status` or an
// `Expected<T>`. The code is the exit code that a command-line tool ends with
// when the error reaches it, so no tool has a second table. Messages read
// "what, where, what to do". Exceptions never leave the runtime.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_CORE_STATUS_H
#define FUSION_RUNTIME_CORE_STATUS_H

#include <optional>
#include <string>
#include <utility>

namespace fusion::rt {

/// Classes of errors; the values are process exit codes.
enum class Code : int {
  Ok = 0,
  CheckFailed = 1, ///< a numeric comparison failed
  Usage = 2,       ///< wrong option, input name, shape or type
  BadProgram = 3,  ///< the source program is wrong
  Rejected = 4,    ///< a module (or a peer) can't be accepted
  Environment = 5, ///< a library, driver, device or file is missing
  Resources = 6,   ///< memory, disk or another limit
  PeerFailed = 7,
  Timeout = 8,
  Internal = 9,
};

/// An outcome: `Ok`, or the first error with what is known about its place.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(Code code, std::string message, std::string op = {}, int rank = -1)
      : errorCode(code), errorRank(rank), errorMessage(std::move(message)),
        errorOp(std::move(op)) {}

  bool ok() const { return errorCode == Code::Ok; }
  Code code() const { return errorCode; }
  const std::string &message() const { return errorMessage; }
  /// The command the error is about, or empty.
  const std::string &op() const { return errorOp; }
  /// The rank the error happened on, or -1.
  int rank() const { return errorRank; }

private:
  Code errorCode = Code::Ok;
  int errorRank = -1;
  std::string errorMessage;
  std::string errorOp;
};

/// A value, or the error that kept it from being made.
template <typename T> class [[nodiscard]] Expected {
public:
  Expected(T value) : stored(std::move(value)) {}
  Expected(Status error) : error(std::move(error)) {}

  bool ok() const { return stored.has_value(); }
  explicit operator bool() const { return ok(); }
  T &operator*() { return *stored; }
  const T &operator*() const { return *stored; }
  T *operator->() { return &*stored; }
  const T *operator->() const { return &*stored; }
  const Status &status() const { return error; }

private:
  std::optional<T> stored;
  Status error;
};

} // namespace fusion::rt

/// Returns the error of `expr` from the enclosing function, if there is one.
#define FUSION_RT_TRY(expr)                                                    \
  do {                                                                         \
    if (::fusion::rt::Status tryStatus = (expr); !tryStatus.ok())              \
      return tryStatus;                                                        \
  } while (false)

#endif // FUSION_RUNTIME_CORE_STATUS_H
