# SPDX-License-Identifier: Apache-2.0
"""Scale-out: who takes part (launch), how they are wired (topology), and how gradients travel (planner, exchange).

Only gradients cross between processes; environments, inference and replay stay inside each one.
"""
