-- Server time in ms. Such numbers have 13 digits: Lua writes them out in full, as it does up to 14.
local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
