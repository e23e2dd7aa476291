/*===- icu-stub.c - An empty ICU data library
------------------------------===*\
|*
|* libLLVM needs libxml2 (to merge Windows manifests, which Fusion never does),
|* which needs ICU, whose data is 31 MB. The package carries this instead: the
|* table of contents of a data package with no items, which ICU accepts; a
|* converter that would need the data is reported as missing by ICU itself.
|*
|* Compiled by package.sh with ICU_DATA_SYMBOL set to icudt<version>_dat.
|*
\*===----------------------------------------------------------------------===*/
#include <stdint.h>

struct EmptyData {
  uint16_t headerSize;
  uint8_t magic1, magic2;
  uint16_t infoSize, reservedWord;
  uint8_t isBigEndian, charsetFamily, sizeofUChar, reservedByte;
  uint8_t dataFormat[4], formatVersion[4], dataVersion[4];
  uint8_t padding[8];
  uint32_t count, reserved;
};

__attribute__((aligned(16))) const struct EmptyData ICU_DATA_SYMBOL = {
    .headerSize = 32,
    .magic1 = 0xda,
    .magic2 = 0x27,
    .infoSize = 20,
    .sizeofUChar = 2,
    .dataFormat = {'T', 'o', 'C', 'P'},
    .formatVersion = {1, 0, 0, 0},
};
