-- Server time in ms, and integers as text (tostring would print large ones in exponent form).
local function int(n) return string.format('%.0f', n) end
local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
