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

SEED_HD inline int32_t rule_bcd(const uint8_t* operands, const uint8_t* ram) {
  int32_t value = 0, weight = 1;
  for (int i = 1; i <= operands[0]; ++i, weight *= 100) value += weight * rule_decimal(ram[operands[i]]);
  return value;
}

SEED_HD inline int32_t rule_digits(const uint8_t* operands, const uint8_t* ram) {
  const uint32_t mask = operands[1], shift = operands[2], blank = operands[3] | operands[4] << 8;
  int32_t value = 0, weight = 1;
  for (int i = 0; i < operands[0]; ++i, weight *= 10) {
    const uint32_t digit = ram[operands[5 + i]] & mask;
    if (digit != blank) value += weight * static_cast<int32_t>(digit >> shift);
  }
  return value;
}

SEED_HD inline int32_t rule_lookup(const uint8_t* operands, int32_t key, int32_t value) {
  for (int i = 0; i < operands[0]; ++i) {
    if (key == operands[1 + 2 * i]) return rule_signed8(operands[2 + 2 * i]);
  }
  return value;
}

// Runs from `position` to the next request (stored in `request`) or the end; returns the value on top of the stack.
SEED_HD SEED_CALL inline int32_t rules_run(const uint8_t* code, uint32_t& position, const RuleInput& input,
                                           int32_t* variables, ModeRequest& request) {
  const uint8_t* const ram = input.ram;
  int32_t stack[kMaxRuleStack + 1];
  int32_t* below = stack;  // one past the values under the top
  int32_t top = 0;
  const uint8_t* at = code + position;
  const auto word = [&at]() { return static_cast<uint32_t>(at[0] | at[1] << 8); };
  const auto push = [&](int32_t value) {
    *below++ = top;
    top = value;
  };
  const auto pop = [&]() {
    const int32_t value = top;
    top = *--below;
    return value;
  };
  const auto ask = [&](ModeRequest::Kind kind, uint8_t action, int32_t frames, uint32_t modulus) {
    request = ModeRequest{kind, action, frames, modulus};
    position = static_cast<uint32_t>(at - code);
    return 0;
  };
  for (;;) {
    switch (static_cast<RuleOp>(*at++)) {
      case RuleOp::kEnd:
        position = static_cast<uint32_t>(at - 1 - code);
        request.kind = ModeRequest::kDone;
        return top;
      case RuleOp::kByte:
        push(*at++);
        break;
      case RuleOp::kInt:
        push(static_cast<int32_t>(at[0] | at[1] << 8 | at[2] << 16 | uint32_t(at[3]) << 24));
        at += 4;
        break;
      case RuleOp::kRam:
        push(ram[*at++]);
        break;
      case RuleOp::kCartRam:
        push(input.cart_ram[*at++]);
        break;
      case RuleOp::kVariable:
        push(variables[*at++]);
        break;
      case RuleOp::kStore:
        variables[*at++] = pop();
        break;
      case RuleOp::kMode:
        push(input.mode);
        break;
      case RuleOp::kBcd:
        push(rule_bcd(at, ram));
        at += 1 + at[0];
        break;
      case RuleOp::kDigits:
        push(rule_digits(at, ram));
        at += 5 + at[0];
        break;
      case RuleOp::kCount:
        push(rule_count(at, ram));
        at += 2 + at[0] + at[1];
        break;
      case RuleOp::kSumPositive:
        push(rule_sum_of_sign(at, ram, 1));
        at += 1 + at[0];
        break;
      case RuleOp::kSumNegative:
        push(rule_sum_of_sign(at, ram, -1));
        at += 1 + at[0];
        break;
      case RuleOp::kUniform:
        push(rule_uniform_blocks(at, ram));
        at += 3;
        break;
      case RuleOp::kLookup:
        top = rule_lookup(at, *--below, top);
        at += 1 + 2 * at[0];
        break;
      case RuleOp::kAdd:
        top = static_cast<int32_t>(uint32_t(*--below) + uint32_t(top));
        break;
      case RuleOp::kSubtract:
        top = static_cast<int32_t>(uint32_t(*--below) - uint32_t(top));
        break;
      case RuleOp::kMultiply:
        top = static_cast<int32_t>(uint32_t(*--below) * uint32_t(top));
        break;
      case RuleOp::kDivide:
        top = *--below / top;
        break;
      case RuleOp::kModulo:
        top = *--below % top;
        break;
      case RuleOp::kBitAnd:
        top &= *--below;
        break;
      case RuleOp::kShiftLeft:
        top = static_cast<int32_t>(uint32_t(*--below) << (top & 31));
        break;
      case RuleOp::kShiftRight:
        top = *--below >> (top & 31);
        break;
      case RuleOp::kEqual:
        top = *--below == top;
        break;
      case RuleOp::kNotEqual:
        top = *--below != top;
        break;
      case RuleOp::kLess:
        top = *--below < top;
        break;
      case RuleOp::kLessEqual:
        top = *--below <= top;
        break;
      case RuleOp::kGreater:
        top = *--below > top;
        break;
      case RuleOp::kGreaterEqual:
        top = *--below >= top;
        break;
      case RuleOp::kAnd:
        top = (*--below != 0) & (top != 0);
        break;
      case RuleOp::kOr:
        top = (*--below | top) != 0;
        break;
      case RuleOp::kNot:
        top = top == 0;
        break;
      case RuleOp::kNegate:
        top = static_cast<int32_t>(0u - uint32_t(top));
        break;
      case RuleOp::kUnsigned8:
        top &= 0xff;
        break;
      case RuleOp::kSigned8:
        top = rule_signed8(static_cast<uint32_t>(top));
        break;
      case RuleOp::kDecimal:
        top = rule_decimal(static_cast<uint32_t>(top) & 0xff);
        break;
      case RuleOp::kPopcount: {
        int32_t count = 0;
        for (uint32_t bits = static_cast<uint32_t>(top); bits != 0; bits &= bits - 1) ++count;
        top = count;
        break;
      }
      case RuleOp::kMin:
        --below;
        if (*below < top) top = *below;
        break;
      case RuleOp::kMax:
        --below;
        if (*below > top) top = *below;
        break;
      case RuleOp::kWrap:
        --below;
        top = *below < 0 ? static_cast<int32_t>(uint32_t(*below) + uint32_t(top)) : *below;
        break;
      case RuleOp::kBlank:
        --below;
        top = *below == top ? 0 : *below;
        break;
      case RuleOp::kSelect:
        below -= 2;
        top = top != 0 ? below[0] : below[1];
        break;
      case RuleOp::kJump:
        at = code + word();
        break;
      case RuleOp::kJumpIfZero:
        at = pop() == 0 ? code + word() : at + 2;
        break;
      case RuleOp::kPressSelect:
        return ask(ModeRequest::kPressSelect, 0, top, 1);
      case RuleOp::kPressRandom:
        return ask(ModeRequest::kPressRandom, 0, *--below, static_cast<uint32_t>(top));
      case RuleOp::kAct:
        ++at;
        return ask(ModeRequest::kAct, at[-1], 0, 1);
      case RuleOp::kSoftReset:
        return ask(ModeRequest::kSoftReset, 0, 0, 1);
      case RuleOp::kFail:
        --at;
        return ask(ModeRequest::kFail, 0, 0, 1);
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
