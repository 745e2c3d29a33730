-- Starts a lease of one or more ready messages, of which there are `ready`; k and o as in hold, and o.max: how many
-- messages at most.
-- include: claimed
-- include: hold
-- include: take
-- Returns whether a list has at most 8 MiB; false too if the user may not call this command. It reports too little where
-- Redis compresses lists.
local function fits(list)
  local bytes = redis.pcall('MEMORY', 'USAGE', list, 'SAMPLES', 0)
  return type(bytes) == 'number' and bytes <= 8388608
end
-- Moves exactly n messages, which Redis copies: in Lua, each would be converted twice, which costs four times as much.
-- Returns false, and moves none, if they may exceed 8 MiB, which is certain only after the copy.
local function copied(from, to, n)
  for at = 0, n - 1, math.ceil(n / 8) do
    if n * #redis.call('LINDEX', from, at) > 8388608 then return false end
  end
  if redis.pcall('SORT', from, 'BY', 'nosort', 'LIMIT', 0, n, 'STORE', to) ~= n or not fits(to) then
    redis.call('UNLINK', to)
    return false
  end
  redis.call('LTRIM', from, n, -1)
  return true
end
local function move(from, to, limit, ready)
  if limit >= ready and (limit > 4000 or (ready >= 100 and fits(from))) then -- all messages: the list becomes the lease
    redis.call('RENAME', from, to)
    return ready, {}
  end
  local n = math.min(limit, ready, 4000)
  if n >= 100 and n < ready and copied(from, to, n) then return n, {} end
  return take(from, to, n, limit < 100)
end
local function open_ready(k, o, now, ready)
  if o.max == 1 then return hold_one(k, o, now) end
  local token, deadline, limit = next_token(k, o), deadline_of(o, now), o.max
  local taken, kept = move(k.ready, k.lease, limit, ready)
  local state = taken < math.min(limit, ready) and ' f ' or ' h '
  redis.call('LPUSH', k.lease, token .. state .. now .. ' 0 0 ' .. o.owner)
  if state == ' h ' then limit = taken end
  redis.call('ZADD', k.leases, deadline, o.id)
  return claimed(token, deadline, taken, limit, 0, 0), kept
end
