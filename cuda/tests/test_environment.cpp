// SPDX-License-Identifier: Apache-2.0
// The elementary functions against the C library in double precision, and the random numbers of environments.
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "envs/environment.h"

using namespace seed;

namespace {

int failures = 0;

void check(bool condition, const char* what, double value) {
  if (condition) return;
  std::printf("failed: %s (%g)\n", what, value);
  ++failures;
}

void check_functions() {
  double sine_error = 0, cosine_error = 0, logarithm_error = 0, exponential_error = 0;
  for (int i = -200000; i <= 200000; ++i) {
    const float x = static_cast<float>(i) * 1e-3f;
    const SineCosine both = sine_cosine(x);
    sine_error = std::fmax(sine_error, std::fabs(both.sine - std::sin(static_cast<double>(x))));
    cosine_error = std::fmax(cosine_error, std::fabs(both.cosine - std::cos(static_cast<double>(x))));
  }
  for (int i = 1; i <= 200000; ++i) {
    const float x = static_cast<float>(i) * 1.37e-3f;
    const double exact = std::log(static_cast<double>(x));
    logarithm_error =
        std::fmax(logarithm_error, std::fabs(natural_logarithm(x) - exact) / std::fmax(1.0, std::fabs(exact)));
    const float y = static_cast<float>(i - 100000) * 8e-4f;
    exponential_error =
        std::fmax(exponential_error, std::fabs(exponential(y) / std::exp(static_cast<double>(y)) - 1.0));
  }
  std::printf("largest errors: sine %.2g, cosine %.2g, logarithm %.2g, exponential %.2g\n", sine_error, cosine_error,
              logarithm_error, exponential_error);
  check(sine_error < 2e-7, "sine", sine_error);
  check(cosine_error < 2e-7, "cosine", cosine_error);
  check(logarithm_error < 2e-7, "logarithm", logarithm_error);
  check(exponential_error < 3e-7, "exponential", exponential_error);
  check(std::isnan(clamp(NAN, -1.0f, 1.0f)) == false, "clamp of not-a-number", 0);
  check(exponential(-200.0f) == 0.0f && exponential(0.0f) == 1.0f, "exponential at its ends", 0);
}

void check_random() {
  constexpr int kDraws = 400000;
  double sum = 0, squares = 0, exponential_sum = 0;
  int counts[7] = {};
  Random random(1, 2, 3, 0);
  for (int i = 0; i < kDraws; ++i) {
    const double x = random.normal();
    sum += x;
    squares += x * x;
    exponential_sum += random.exponential();
    ++counts[random.integer(7)];
  }
  check(std::fabs(sum / kDraws) < 0.01, "mean of normal", sum / kDraws);
  check(std::fabs(squares / kDraws - 1.0) < 0.01, "variance of normal", squares / kDraws);
  check(std::fabs(exponential_sum / kDraws - 1.0) < 0.01, "mean of exponential", exponential_sum / kDraws);
  for (const int count : counts) check(std::abs(count - kDraws / 7) < 1500, "integers are even", count);

  // A generator that is made anew in the middle of its stream continues it.
  Random whole(9, 9, 9, 0);
  for (uint32_t i = 0; i < 50; ++i) {
    Random part(9, 9, 9, i);
    check(part.bits() == whole.bits(), "a stream taken up at draw", i);
  }
  check(Random(1, 2, 3, 0).bits() != Random(1, 3, 3, 0).bits(), "lanes differ", 0);
  check(Random(1, 2, 3, 0).bits() != Random(1, 2, 4, 0).bits(), "episodes differ", 0);
}

}  // namespace

int main() {
  check_functions();
  check_random();
  if (failures == 0) std::printf("passed\n");
  return failures == 0 ? 0 : 1;
}
