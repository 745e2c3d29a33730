-- Compares ids of stream entries. Lua numbers cannot hold 64 bits; texts of equal length compare like numbers.
local function parts(id)
  local ms, count = string.match(id, '^(%d+)-(%d+)$')
  return {#ms, ms, #count, count}
end
local function precedes(a, b)
  local left, right = parts(a), parts(b)
  for i = 1, 4 do
    if left[i] ~= right[i] then return left[i] < right[i] end
  end
  return false
end
