-- SPDX-License-Identifier: Apache-2.0
-- machines.lua: datasheets of nodes and fabrics, for predicted times of GPUs on several nodes. In:
-- names of a GPU, a node and a fabric. Out: one table of numbers, which fields of target.network
-- replace one by one. The table of GPUs is in describe.lua. Nothing here reaches the numerics hash.
--
-- Rates are attainable ones: 92 % of a NIC's line rate, which is what nccl-tests reached over four
-- nodes of 8 x H200 with 8 x 400 Gb/s (369 GB/s of 400 a node; stas00/ml-engineering). They are in
-- proportion for other NICs, and none was measured by us.
local attainable = 0.92

-- GB/s of a NIC of so many Gb/s.
local function nic(gbit)
    return gbit / 8 * attainable
end

-- A step of NCCL's ring, in microseconds: over NVLink, over PCIe, over a network (hwLat of its
-- src/graph/tuning.cc, ring, protocol Simple).
local nvlink_step, pcie_step, net_step = 3.4, 5.7, 9.6

-- Nodes by name: `gpu`, those that they are built with; `gpus` of a node; `domain`, how many GPUs
-- NVLink or PCIe joins, across nodes where it is more than a node has; `nics` of a node and GB/s of
-- each; `step`; `price`, dollars an hour of a node, where somebody states one; `fabric`, unless
-- another is named.
local nodes = {
    -- DGX A100: 8 GPUs on NVSwitch, 8 x ConnectX-6 of 200 Gb/s (its datasheet)
    { "hgx-a100", gpu = { "a100-40gb", "a100-80gb" }, gpus = 8, domain = 8, nics = 8,
      nic = nic(200), step = nvlink_step, fabric = "rail" },
    -- DGX H100, H200, B200: 8 GPUs on NVSwitch, 8 x ConnectX-7 of 400 Gb/s (their datasheets)
    { "hgx-h100", gpu = { "h100" }, gpus = 8, domain = 8, nics = 8, nic = nic(400),
      step = nvlink_step, fabric = "rail" },
    { "hgx-h200", gpu = { "h200" }, gpus = 8, domain = 8, nics = 8, nic = nic(400),
      step = nvlink_step, fabric = "rail" },
    { "hgx-b200", gpu = { "b200" }, gpus = 8, domain = 8, nics = 8, nic = nic(400),
      step = nvlink_step, fabric = "rail" },
    -- a compute tray of GB200 NVL72: 4 GPUs, 72 on NVSwitch in a rack, 4 x ConnectX-7 of 400 Gb/s
    { "gb200-nvl72", gpu = { "b200" }, gpus = 4, domain = 72, nics = 4, nic = nic(400),
      step = nvlink_step, fabric = "rail" },
    -- EC2 Capacity Blocks, prices of December 2024 (aws.amazon.com/ec2/capacityblocks/pricing):
    -- p4d.24xlarge, 400 Gb/s; p5.48xlarge and p5e.48xlarge, 3,200 Gb/s; in NICs of 100 Gb/s
    { "aws-p4d", gpu = { "a100-40gb" }, gpus = 8, domain = 8, nics = 4, nic = nic(100),
      step = nvlink_step, price = 14.75, fabric = "flat" },
    { "aws-p5", gpu = { "h100" }, gpus = 8, domain = 8, nics = 32, nic = nic(100),
      step = nvlink_step, price = 39.33, fabric = "flat" },
    { "aws-p5e", gpu = { "h200" }, gpus = 8, domain = 8, nics = 32, nic = nic(100),
      step = nvlink_step, price = 43.26, fabric = "flat" },
    -- no product: a server with 8 cards, and one NIC of 100 Gb/s
    { "pcie", gpu = { "l40s", "rtx4090", "rtx5090" }, gpus = 8, domain = 8, nics = 1,
      nic = nic(100), step = pcie_step, fabric = "flat" },
}

-- Fabrics by name: `rail`, whether the NICs of a node go to different leaf switches, each of which
-- joins the NICs of one place on all its nodes; `down`, NICs that have their full rate among each
-- other; `oversubscription`, how many times less a NIC has beyond them; `step`, as above.
local fabrics = {
    -- leaf switches of 64 ports, half of them down, full bisection above: DGX SuperPOD's reference
    -- architecture, 32 nodes to a rail's leaf
    { "rail", rail = true, down = 32, oversubscription = 1, step = net_step },
    -- the same switches, all NICs of a node on one leaf: 4 nodes of 8 NICs
    { "flat", rail = false, down = 32, oversubscription = 1, step = net_step },
    -- no product: as flat, with half the ports above
    { "tapered", rail = false, down = 32, oversubscription = 2, step = net_step },
    -- RoCE in pods of 3,072 GPUs with full bisection, 1:7 between pods (The Llama 3 Herd of Models,
    -- 3.3.1)
    { "roce-pods", rail = false, down = 3072, oversubscription = 7, step = net_step },
}

local function names(rows)
    local all = {}
    for i, row in ipairs(rows) do
        all[i] = row[1]
    end
    return all
end

local function find(rows, name)
    for _, row in ipairs(rows) do
        if row[1] == name then
            return row
        end
    end
end

local function is_built_with(node, gpu)
    for _, name in ipairs(node.gpu) do
        if name == gpu then
            return true
        end
    end
    return false
end

-- The first node of the table that is built with the GPU, unless one is named.
local function of(gpu, node_name, fabric_name)
    local node = find(nodes, node_name)
    for i = 1, node and 0 or #nodes do
        if is_built_with(nodes[i], gpu) then
            node = nodes[i]
            break
        end
    end
    local fabric = find(fabrics, fabric_name or node.fabric)
    return {
        node = node[1], fits = is_built_with(node, gpu), built = table.concat(node.gpu, ", "),
        gpus = node.gpus, domain = node.domain, nics = node.nics, nic = node.nic,
        step = node.step, price = node.price or 0,
        fabric = fabric[1], rail = fabric.rail, down = fabric.down,
        oversubscription = fabric.oversubscription, net_step = fabric.step,
    }
end

return { nodes = names(nodes), fabrics = names(fabrics), of = of }
