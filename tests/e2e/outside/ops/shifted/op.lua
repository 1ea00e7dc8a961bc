-- SPDX-License-Identifier: Apache-2.0
return op.map { doc = "y = x + b, a bias by a formula", y = "x + b[d]" }
