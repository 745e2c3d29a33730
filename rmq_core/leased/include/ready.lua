-- The messages of a queue that wait to be claimed. Another layout has files of its own for this one and for front, hold,
-- open_ready, take, promote, next_due, oldest, entries, chosen and ended.
-- How many messages a claim may get now, and how many wait in all.
local function claimable_at(_) return redis.call('LLEN', ready) end
local size_of = claimable_at
local in_groups = false
-- Returns the lines of some groups, or nil where messages do not wait in groups.
local function lines_of(_) redis.call('LLEN', ready) end
local function append(messages) return redis.call('RPUSH', ready, unpack(messages)) end
