-- SPDX-License-Identifier: Apache-2.0
return op.map { doc = "a line that bends", y = "x + 0.1 * x * x" }
