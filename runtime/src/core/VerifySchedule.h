//===- VerifySchedule.h - Proof that a program has no race ------*- C++ -*-===//
#ifndef FUSION_RUNTIME_CORE_VERIFYSCHEDULE_H
#define FUSION_RUNTIME_CORE_VERIFYSCHEDULE_H

#include "ModuleData.h"
#include "Status.h"

namespace fusion::rt {

/// Proves, for every order that streams and events allow, that the program
/// reads only bytes that were written and never races:
///
///  S1  every range lies inside its segment;
///  S2  within a command, a written range overlaps no other operand (a call's
///      addend may be exactly its output; a tail may write exactly the output
///      or the addend);
///  S3  constants are never written, inputs only if they are donated;
///  S4  a read sees only bytes that an earlier command (or the caller) wrote,
///      where ranges carry an allocation number, bytes of that number; by the
///      name of a donated input nothing that was written as its output, and by
///      the output's name (but in place) nothing else;
///  S5  of two commands that touch a byte, one of them writing, one happens
///      before the other;
///  S6  a wait follows a record of its event; an event is recorded again only
///      after all waits of the earlier record;
///  S7  each output is written completely;
///  S9  a direct move's parts lie in private segments, at multiples of 16
///  bytes. The next release of its
///      group (stream and axes) names them and no others, and up to it nothing
///      writes an input's bytes or touches an output's, except launches that
///      read of it what one rank has; nothing reads an output afterwards.
///
/// From S9 it follows that a rank may read another's input in its place. As a
/// release reads inputs and writes outputs, it comes after all readers and in
/// front of whatever has their bytes next (S5), and inputs are whole until then
/// (S4). It ends on a rank when all of its group have come to it, so they have
/// all read.
///
/// Nor can ranks wait for each other in a circle (S8), if all run this program:
/// of the commands that are not done on some rank, the first in the list has
/// nothing to wait for. Those before it are done everywhere, among them the
/// record that it needs (S6) and, as a communicator's collectives are all on
/// one stream, all that its communicator has before it. That all ranks do run
/// this program they check by comparing `scheduleHash`.
///
/// Where ranges are turned (rules T1 to T4 in Turns.h) all this holds on every
/// rank.
///
/// The order of `Program::commands` is one legal order (a wait stands after its
/// record), so one sweep over it with vector clocks decides. Near linear in the
/// operands. Errors are `BadProgram`, start with the rule and name both
/// commands; the program may be arbitrary data.
Status verifySchedule(const Program &program);

/// S9 alone, of a program for which the others hold.
Status verifyDirectMoves(const Program &program);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_CORE_VERIFYSCHEDULE_H
