-- When waiting messages expire: one with the header rmq-expires has an entry in `expiring` while it is in a group.
-- KEYS: expiring, sorted set: '<number + 5e14><group>' -> ms  overdue, list: ids of those that expired and that no client
--         was told of yet
-- include: dated
-- include: entry_of
local timed = redis.call('ZCARD', expiring) > 0 or redis.call('EXISTS', overdue) == 1
local entering, leaving = {}, {}
local function enters(ms, name, number)
  timed, entering[#entering + 1], entering[#entering + 2] = true, ms, entry_of(name, number)
end
local function leaves(name, number)
  if timed then leaving[#leaving + 1] = entry_of(name, number) end
end
