// SPDX-License-Identifier: Apache-2.0
// Evaluates the rules of a game: score, lives, end of game and mode search as byte code on the bytes of RAM.
//
// generate_tables.py compiles games.toml to this code at build time; it reads the numbers of RuleOp from this file. The
// machine is a stack of 32-bit integers beside the game's variables. Expressions have no side effects and no jumps:
// both sides of a choice are computed. Only mode programs jump, and they stop at each request to the console:
//
//   uint32_t position = game.set_mode;
//   for (ModeRequest request; (request = rules_next_request(code, position, input, variables)).kind != kDone;) ...
//
// Arithmetic wraps around, addresses are masked, and the generator bounds stack and variables: no RAM content or
// restored variable can make an evaluation fail.
#pragma once

#include <cstdint>

#include "portability.h"

namespace seed {

constexpr int kMaxVariables = 16;  // of a game, temporaries included
constexpr int kMaxRuleStack = 8;

// Operands in < > follow the operation as one byte each unless noted; a, b, c are the values taken from the stack.
enum class RuleOp : uint8_t {
  kEnd,          // the result is the top of the stack
  kByte,         // <value>
  kInt,          // <four bytes, little-endian>
  kRam,          // <address>
  kCartRam,      // <index>
  kVariable,     // <index>
  kStore,        // <index>; takes a
  kMode,         // the requested mode
  kBcd,          // <n> <address> * n: two decimal digits a byte, the lowest pair first
  kDigits,       // <n> <mask> <shift> <blank, 2 bytes> <address> * n: one digit a byte, the lowest first
  kCount,        // <n> <m> <value> * m <address> * n: how many bytes have one of the values
  kSumPositive,  // <n> <address> * n: sum of the positive signed bytes
  kSumNegative,  // <n> <address> * n: sum of the magnitudes of the negative signed bytes
  kUniform,      // <address> <length> <n>: how many of n consecutive blocks hold equal bytes
  kLookup,       // <n> (<key> <signed value>) * n: takes key a and default b
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,  // kDivide and kModulo: the divisor is a positive constant, the dividend not negative
  kModulo,
  kBitAnd,
  kShiftLeft,
  kShiftRight,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kAnd,
  kOr,
  kNot,
  kNegate,
  kUnsigned8,
  kSigned8,
  kDecimal,  // the value of a byte of two decimal digits
  kPopcount,
  kMin,
  kMax,
  kWrap,         // a, plus b when a is negative
  kBlank,        // a, or 0 when a equals b
  kSelect,       // a when c is not zero, else b (pushed in the order a, b, c)
  kJump,         // <target, 2 bytes> from the start of the code of all games
  kJumpIfZero,   // <target, 2 bytes>; takes a
  kPressSelect,  // takes a: frames
  kPressRandom,  // takes a, b: a + draw mod b frames
  kAct,          // <action>
  kSoftReset,    //
  kFail,         // the mode cannot be reached
};

struct RuleInput {
  const uint8_t* ram;       // 128 bytes
  const uint8_t* cart_ram;  // 128 bytes; zeros when the cartridge has none
  int32_t mode;
};

// What a mode program wants from the console.
struct ModeRequest {
  enum Kind : uint8_t {
    kDone,
    kPressSelect,  // hold SELECT for `frames`, then run one frame with nothing pressed
    kPressRandom,  // the same for `frames` + draw mod `modulus`
    kAct,          // one act() of `action`
    kSoftReset,    // press RESET
    kFail,
  };
  Kind kind;
  uint8_t action;
  int32_t frames;
  uint32_t modulus;
};

SEED_HD inline int32_t rule_decimal(uint32_t byte) { return static_cast<int32_t>((byte >> 4) * 10 + (byte & 15)); }

SEED_HD inline int32_t rule_signed8(uint32_t value) { return static_cast<int32_t>((value & 0xff) ^ 0x80) - 0x80; }

SEED_HD inline int32_t rule_count(const uint8_t* operands, const uint8_t* ram) {
  const int num_addresses = operands[0], num_values = operands[1];
  const uint8_t* values = operands + 2;
  const uint8_t* addresses = values + num_values;
  int32_t count = 0;
  for (int i = 0; i < num_addresses; ++i) {
    for (int j = 0; j < num_values; ++j) count += ram[addresses[i]] == values[j];
  }
  return count;
}

SEED_HD inline int32_t rule_sum_of_sign(const uint8_t* operands, const uint8_t* ram, int32_t sign) {
  int32_t sum = 0;
  for (int i = 1; i <= operands[0]; ++i) {
    const int32_t value = sign * rule_signed8(ram[operands[i]]);
    sum += value > 0 ? value : 0;
  }
  return sum;
}

SEED_HD inline int32_t rule_uniform_blocks(const uint8_t* operands, const uint8_t* ram) {
  int32_t count = 0;
  for (int block = 0, address = operands[0]; block < operands[2]; ++block, address += operands[1]) {
    bool uniform = true;
    for (int i = 1; i < operands[1]; ++i) uniform &= ram[(address + i) & 0x7f] == ram[address & 0x7f];
    count += uniform;
  }
  return count;
}

// Runs from `position` to the next request (stored in `request`) or the end; returns the value on top of the stack.
SEED_HD inline int32_t rules_run(const uint8_t* code, uint32_t& position, const RuleInput& input, int32_t* variables,
                                 ModeRequest& request) {
  int32_t stack[kMaxRuleStack];
  int32_t* next = stack;  // one past the top
  const uint8_t* at = code + position;
  const auto word = [&at]() { return static_cast<uint32_t>(at[0] | at[1] << 8); };
  const auto add = [](int32_t a, int32_t b) { return static_cast<int32_t>(uint32_t(a) + uint32_t(b)); };
  const auto subtract = [](int32_t a, int32_t b) { return static_cast<int32_t>(uint32_t(a) - uint32_t(b)); };
  request = ModeRequest{ModeRequest::kDone, 0, 0, 1};
  for (;;) {
    switch (static_cast<RuleOp>(*at++)) {
      case RuleOp::kEnd:
        position = static_cast<uint32_t>(at - 1 - code);
        return next == stack ? 0 : next[-1];
      case RuleOp::kByte:
        *next++ = *at++;
        break;
      case RuleOp::kInt:
        *next++ = static_cast<int32_t>(at[0] | at[1] << 8 | at[2] << 16 | uint32_t(at[3]) << 24);
        at += 4;
        break;
      case RuleOp::kRam:
        *next++ = input.ram[*at++];
        break;
      case RuleOp::kCartRam:
        *next++ = input.cart_ram[*at++];
        break;
      case RuleOp::kVariable:
        *next++ = variables[*at++];
        break;
      case RuleOp::kStore:
        variables[*at++] = *--next;
        break;
      case RuleOp::kMode:
        *next++ = input.mode;
        break;
      case RuleOp::kBcd: {
        int32_t value = 0, weight = 1;
        for (int n = *at++; n > 0; --n, weight *= 100) value += weight * rule_decimal(input.ram[*at++]);
        *next++ = value;
        break;
      }
      case RuleOp::kDigits: {
        const uint32_t mask = at[1], shift = at[2], blank = at[3] | at[4] << 8;
        int32_t value = 0, weight = 1, n = at[0];
        for (at += 5; n > 0; --n, weight *= 10) {
          const uint32_t digit = input.ram[*at++] & mask;
          if (digit != blank) value += weight * static_cast<int32_t>(digit >> shift);
        }
        *next++ = value;
        break;
      }
      case RuleOp::kCount:
        *next++ = rule_count(at, input.ram);
        at += 2 + at[0] + at[1];
        break;
      case RuleOp::kSumPositive:
        *next++ = rule_sum_of_sign(at, input.ram, 1);
        at += 1 + at[0];
        break;
      case RuleOp::kSumNegative:
        *next++ = rule_sum_of_sign(at, input.ram, -1);
        at += 1 + at[0];
        break;
      case RuleOp::kUniform:
        *next++ = rule_uniform_blocks(at, input.ram);
        at += 3;
        break;
      case RuleOp::kLookup: {
        const int n = *at++;
        int32_t value = *--next;
        for (int i = 0; i < n; ++i) {
          if (next[-1] == at[2 * i]) value = rule_signed8(at[2 * i + 1]);
        }
        next[-1] = value;
        at += 2 * n;
        break;
      }
      case RuleOp::kAdd:
        --next;
        next[-1] = add(next[-1], next[0]);
        break;
      case RuleOp::kSubtract:
        --next;
        next[-1] = subtract(next[-1], next[0]);
        break;
      case RuleOp::kMultiply:
        --next;
        next[-1] = static_cast<int32_t>(uint32_t(next[-1]) * uint32_t(next[0]));
        break;
      case RuleOp::kDivide:
        --next;
        next[-1] /= next[0];
        break;
      case RuleOp::kModulo:
        --next;
        next[-1] %= next[0];
        break;
      case RuleOp::kBitAnd:
        --next;
        next[-1] &= next[0];
        break;
      case RuleOp::kShiftLeft:
        --next;
        next[-1] = static_cast<int32_t>(uint32_t(next[-1]) << (next[0] & 31));
        break;
      case RuleOp::kShiftRight:
        --next;
        next[-1] >>= next[0] & 31;
        break;
      case RuleOp::kEqual:
        --next;
        next[-1] = next[-1] == next[0];
        break;
      case RuleOp::kNotEqual:
        --next;
        next[-1] = next[-1] != next[0];
        break;
      case RuleOp::kLess:
        --next;
        next[-1] = next[-1] < next[0];
        break;
      case RuleOp::kLessEqual:
        --next;
        next[-1] = next[-1] <= next[0];
        break;
      case RuleOp::kGreater:
        --next;
        next[-1] = next[-1] > next[0];
        break;
      case RuleOp::kGreaterEqual:
        --next;
        next[-1] = next[-1] >= next[0];
        break;
      case RuleOp::kAnd:
        --next;
        next[-1] = (next[-1] != 0) & (next[0] != 0);
        break;
      case RuleOp::kOr:
        --next;
        next[-1] = (next[-1] | next[0]) != 0;
        break;
      case RuleOp::kNot:
        next[-1] = next[-1] == 0;
        break;
      case RuleOp::kNegate:
        next[-1] = subtract(0, next[-1]);
        break;
      case RuleOp::kUnsigned8:
        next[-1] &= 0xff;
        break;
      case RuleOp::kSigned8:
        next[-1] = rule_signed8(static_cast<uint32_t>(next[-1]));
        break;
      case RuleOp::kDecimal:
        next[-1] = rule_decimal(static_cast<uint32_t>(next[-1]) & 0xff);
        break;
      case RuleOp::kPopcount: {
        int32_t count = 0;
        for (uint32_t bits = static_cast<uint32_t>(next[-1]); bits != 0; bits &= bits - 1) ++count;
        next[-1] = count;
        break;
      }
      case RuleOp::kMin:
        --next;
        if (next[0] < next[-1]) next[-1] = next[0];
        break;
      case RuleOp::kMax:
        --next;
        if (next[0] > next[-1]) next[-1] = next[0];
        break;
      case RuleOp::kWrap:
        --next;
        if (next[-1] < 0) next[-1] = add(next[-1], next[0]);
        break;
      case RuleOp::kBlank:
        --next;
        if (next[-1] == next[0]) next[-1] = 0;
        break;
      case RuleOp::kSelect:
        next -= 2;
        if (next[1] == 0) next[-1] = next[0];
        break;
      case RuleOp::kJump:
        at = code + word();
        break;
      case RuleOp::kJumpIfZero:
        at = *--next == 0 ? code + word() : at + 2;
        break;
      case RuleOp::kPressSelect:
        request = ModeRequest{ModeRequest::kPressSelect, 0, *--next, 1};
        position = static_cast<uint32_t>(at - code);
        return 0;
      case RuleOp::kPressRandom:
        next -= 2;
        request = ModeRequest{ModeRequest::kPressRandom, 0, next[0], static_cast<uint32_t>(next[1])};
        position = static_cast<uint32_t>(at - code);
        return 0;
      case RuleOp::kAct:
        request = ModeRequest{ModeRequest::kAct, *at++, 0, 1};
        position = static_cast<uint32_t>(at - code);
        return 0;
      case RuleOp::kSoftReset:
        request = ModeRequest{ModeRequest::kSoftReset, 0, 0, 1};
        position = static_cast<uint32_t>(at - code);
        return 0;
      case RuleOp::kFail:
        request = ModeRequest{ModeRequest::kFail, 0, 0, 1};
        position = static_cast<uint32_t>(at - 1 - code);
        return 0;
    }
  }
}

// Runs the assignments of a step, from where they start in the code.
SEED_HD inline void rules_step(const uint8_t* code, uint32_t start, const RuleInput& input, int32_t* variables) {
  ModeRequest request;
  rules_run(code, start, input, variables, request);
}

// The value of the expression that starts at `start`.
SEED_HD inline int32_t rules_value(const uint8_t* code, uint32_t start, const RuleInput& input,
                                   const int32_t* variables) {
  ModeRequest request;
  // An expression contains no kStore: it reads the variables only.
  return rules_run(code, start, input, const_cast<int32_t*>(variables), request);
}

// Runs a mode program up to its next request, from where `position` says, and moves `position` behind it.
SEED_HD inline ModeRequest rules_next_request(const uint8_t* code, uint32_t& position, const RuleInput& input,
                                              int32_t* variables) {
  ModeRequest request;
  rules_run(code, position, input, variables, request);
  return request;
}

}  // namespace seed
