# SPDX-License-Identifier: Apache-2.0
"""Networks: encoders of observations, recurrent cores, heads."""
