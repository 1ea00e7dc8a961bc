-- SPDX-License-Identifier: Apache-2.0
return op.map { y = "square(relu(x))" }
