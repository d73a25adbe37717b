"""The cases of scripts/frontend_check.py, by operation: importing a module adds its own to harness.CASES."""
# SPDX-License-Identifier: Apache-2.0
