// SPDX-License-Identifier: Apache-2.0
// Philox 4x32-10 against the known answers that its authors publish (Random123, kat_vectors).
#include <cstdio>
#include <cstring>

#include "random.h"

namespace {

struct KnownAnswer {
  uint32_t counter[4], key[2], expected[4];
};

constexpr KnownAnswer kKnownAnswers[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

}  // namespace

int main() {
  for (const KnownAnswer& known : kKnownAnswers) {
    seed::PhiloxBlock counter;
    std::memcpy(counter.words, known.counter, sizeof counter.words);
    const seed::PhiloxBlock found = seed::philox4x32(counter, known.key[0], known.key[1]);
    if (std::memcmp(found.words, known.expected, sizeof found.words) != 0) {
      std::printf("key %08x %08x: %08x %08x %08x %08x\n", known.key[0], known.key[1], found.words[0], found.words[1],
                  found.words[2], found.words[3]);
      return 1;
    }
  }
  return 0;
}
