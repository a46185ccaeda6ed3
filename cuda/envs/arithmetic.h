// SPDX-License-Identifier: Apache-2.0
// Elementary functions whose results have the same bits on every device.
//
// The C library's and CUDA's sine, logarithm and so on differ in the last bit. These are polynomials of additions and
// multiplications, which IEEE 754 defines exactly; the library is compiled without fused multiply-add. Largest errors,
// measured by cuda/tests/test_environment.cpp: a few units in the last place. Sources of the polynomials: S. Moshier,
// Cephes mathematical library, single precision (sinf.c, logf.c, expf.c).
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "portability.h"

namespace seed {

constexpr float kPi = 3.14159265358979f;

SEED_HD inline float minimum(float a, float b) { return a < b ? a : b; }
SEED_HD inline float maximum(float a, float b) { return a > b ? a : b; }
SEED_HD inline float absolute(float x) { return x < 0.0f ? -x : x; }

// `x` within [low, high]; not-a-number becomes `low`.
SEED_HD inline float clamp(float x, float low, float high) { return x > low ? (x < high ? x : high) : low; }

// IEEE 754 defines the square root exactly.
SEED_HD inline float square_root(float x) { return sqrtf(x); }

SEED_HD inline uint32_t float_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

SEED_HD inline float bits_float(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

struct SineCosine {
  float sine, cosine;
};

// Both at once, for |x| up to some thousands (beyond 8192 they lose digits; not-a-number for what is not finite).
SEED_HD inline SineCosine sine_cosine(float x) {
  // x = quadrant pi/2 + r, |r| <= pi/4, with pi/2 in three parts so that the products are exact.
  const float scaled = x * 0.636619772f;
  const int32_t quadrant = static_cast<int32_t>(scaled + (scaled < 0.0f ? -0.5f : 0.5f));
  const float q = static_cast<float>(quadrant);
  const float r = ((x - q * 1.5703125f) - q * 4.83751296e-4f) - q * 7.54978942e-8f;
  const float s = r * r;
  const float sine = r + r * s * (-1.6666654611e-1f + s * (8.3321608736e-3f + s * -1.9515295891e-4f));
  const float cosine =
      1.0f - 0.5f * s + s * s * (4.166664568298827e-2f + s * (-1.388731625493765e-3f + s * 2.443315711809948e-5f));
  const bool swap = (quadrant & 1) != 0;
  const float first = swap ? cosine : sine, second = swap ? sine : cosine;
  return {(quadrant & 2) != 0 ? -first : first, ((quadrant + 1) & 2) != 0 ? -second : second};
}

SEED_HD inline float sine(float x) { return sine_cosine(x).sine; }
SEED_HD inline float cosine(float x) { return sine_cosine(x).cosine; }

// ln x for normal x > 0; a large negative number otherwise.
SEED_HD inline float natural_logarithm(float x) {
  if (!(x >= 1.17549435e-38f)) return -87.5f;
  const uint32_t bits = float_bits(x);
  int32_t exponent = static_cast<int32_t>(bits >> 23) - 126;
  float m = bits_float((bits & 0x007FFFFFu) | 0x3F000000u);  // 0.5 .. 1
  if (m < 0.707106781f) {
    exponent -= 1;
    m = m + m;
  }
  const float e = static_cast<float>(exponent), z = m - 1.0f, s = z * z;
  float p = 7.0376836292e-2f;
  p = p * z - 1.1514610310e-1f;
  p = p * z + 1.1676998740e-1f;
  p = p * z - 1.2420140846e-1f;
  p = p * z + 1.4249322787e-1f;
  p = p * z - 1.6668057665e-1f;
  p = p * z + 2.0000714765e-1f;
  p = p * z - 2.4999993993e-1f;
  p = p * z + 3.3333331174e-1f;
  return ((z * s * p + e * -2.12194440e-4f) - 0.5f * s + z) + e * 0.693359375f;
}

// e^x, 0 below -87 and capped above 88.
SEED_HD inline float exponential(float x) {
  if (!(x > -87.0f)) return 0.0f;
  if (x > 88.0f) x = 88.0f;
  const float scaled = x * 1.44269504f;
  const int32_t n = static_cast<int32_t>(scaled + (scaled < 0.0f ? -0.5f : 0.5f));
  const float k = static_cast<float>(n);
  const float r = (x - k * 0.693359375f) - k * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  return (p * r * r + r + 1.0f) * bits_float(static_cast<uint32_t>(n + 127) << 23);
}

}  // namespace seed
