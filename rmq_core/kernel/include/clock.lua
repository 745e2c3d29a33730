-- Server time in ms, the same throughout a script. Such numbers have 13 digits: Lua writes them out in full, as it does up
-- to 14.
local began
local function clock()
  began = began or redis.call('TIME')
  return began[1] * 1000 + math.floor(began[2] / 1000)
end
