-- Reads entries in batches until there are `most`, or about 4 MiB of them. read(done, n) returns at most n entries behind
-- the first `done`. The first batch is small, and the later ones follow the average size.
local function in_batches(most, read)
  local found, bytes, n = {}, 0, 8
  while #found < most and bytes < 4194304 do
    local got = read(#found, math.min(n, most - #found))
    if #got == 0 then break end
    for i = 1, #got do
      bytes = bytes + #got[i]
      found[#found + 1] = got[i]
    end
    n = math.max(1, math.min(8 * n, math.ceil((4194304 - bytes) * #found / (bytes + 1))))
  end
  return found
end
