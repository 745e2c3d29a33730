-- take_groups() moves up to n messages from the groups whose turn it is to the end of a lease, about 8 MiB of them at
-- most. By start-time fair queueing (Goyal et al., 1996), each group in line gets its share, in order; its turn then
-- comes later by what it got, divided by its weight. chosen: only from these lines. Returns how many messages it moved,
-- the batches, for isolated messages how often they failed together and how many of them a claim may get, else 0 and 0,
-- and whether no group is in line any more.
-- KEYS: group_holds  lease  fence
-- include: ready
-- include: turns
-- include: tallied
-- Counts what a group has given to the lease, whose messages from `index` on are of this group.
local function served(name, r, got, index)
  local l, cost = line_of(), cost_of(name)
  l.count, l.claimable = l.count - got, l.claimable - got
  l.time, r.turn = math.max(l.time, r.turn + cost * (got - 1)), r.turn + cost * got
  local limited, bucket = is_limited(name), group_rate and bucket_of(name)
  if queue_rate then draw(queue_rate, '', got) end
  if bucket then draw(group_rate, bucket, got) end
  if limited and redis.call('HSETNX', group_holds, name, index .. ' ' .. r.first - got) == 1 then
    r.active = r.active + 1
  end
  if limited and r.active >= limit or bucket and tokens_of(name) < 1 then
    l.claimable = l.claimable - r.count
    r.place = 'n'
    enter({name})
  end
end
-- Returns the next message of a group; `pop` removes it too.
local function head_of_group(name, r, pop)
  while r.count > 0 and r.first < r.next do
    local field = name .. '\0' .. r.first
    local envelope = redis.call('HGET', grouped, field)
    if envelope then
      if pop then
        redis.call('HDEL', grouped, field)
        leaves(name, r.first)
        r.first, r.count = r.first + 1, r.count - 1
      end
      return envelope
    end
    r.first = r.first + 1
  end
end
-- Takes isolated messages that failed together, from the groups in front.
local function take_isolated(lease, n, names)
  local taken, kept, bytes, failures, most, of, index = 0, {}, 0, 0, 0, nil, redis.call('LLEN', lease) - 1
  local changed = {}
  read_records(names)
  for i = 1, #names do
    local name, got = names[i], 0
    local r = known[name]
    while taken < n and bytes < 8388608 and (not group_rate or got < tokens_of(name)) do
      local envelope = head_of_group(name, r)
      if not envelope then break end
      local joint, group, share = mark_of(envelope)
      if taken == 0 then
        failures, of, most = joint, group, math.max(1, share)
        if group == 0 then failures, most = 0, 0 end
        n = math.min(n, math.max(1, most))
      elseif group ~= of or group == 0 then break end
      head_of_group(name, r, true)
      if group > 0 then r.suspects = math.max(0, r.suspects - 1) end
      redis.call('RPUSH', lease, envelope)
      tallied({envelope}, {waiting = -1, leased = 1})
      kept[#kept + 1] = {envelope}
      taken, got, bytes = taken + 1, got + 1, bytes + #envelope
    end
    if got == 0 then break end
    changed[#changed + 1] = name
    served(name, r, got, index + taken - got)
    if taken >= n then break end
  end
  enter(changed)
  store(changed)
  keep_counts()
  return taken, kept, failures, most
end
-- Reads and removes the messages of a plan, and appends them to the lease. Returns their bytes, and a batch.
local function move_fields(lease, plan, lo, hi)
  local fields, out, bytes = {}, {}, 0
  for i = lo, hi do fields[#fields + 1] = plan[i].name .. '\0' .. plan[i].number end
  local got = redis.call('HMGET', grouped, unpack(fields))
  redis.call('HDEL', grouped, unpack(fields))
  for i = 1, #got do
    local one = plan[lo + i - 1]
    local r = known[one.name]
    r.first = one.number + 1
    if got[i] then
      leaves(one.name, one.number)
      out[#out + 1], bytes, r.count, one.run.got = got[i], bytes + #got[i], r.count - 1, one.run.got + 1
      one.run.index = one.run.index or #out - 1
    end
  end
  if #out > 0 then redis.call('RPUSH', lease, unpack(out)) end
  tallied(out, {waiting = -1, leased = 1})
  return bytes, out
end
-- Returns up to where the next messages of a plan are taken; see fitting.lua.
local function fitting_to(plan, at, taken, bytes)
  local stop, size = math.min(#plan, at + (taken > 0 and 511 or 127)), taken > 0 and bytes / taken or 0
  for _, i in ipairs({at, stop}) do
    size = math.max(size, redis.call('HSTRLEN', grouped, plan[i].name .. '\0' .. plan[i].number))
  end
  return math.min(stop, at - 1 + math.max(1, math.floor((8388608 - bytes) / (size + 1))))
end
-- Returns the groups in front, at most `most`: only groups of the highest priority share a claim.
local function in_front(most, chosen)
  if not chosen then
    local front = redis.call('ZRANGE', turns, 0, 0)[1]
    local low = front and tonumber(line_score(front, 0))
    return front and redis.call('ZRANGEBYSCORE', turns, low, low + 1e14 - 1, 'LIMIT', 0, most) or {}
  end
  local names, scores = in_order('t', chosen)
  local high, front = names[1] and tonumber(line_score(names[1], 0)) + 1e14, {}
  for i = 1, math.min(#names, most) do
    if scores[names[i]] < high then front[i] = names[i] end
  end
  return front
end
local function apart(chosen)
  if chosen then return (in_order('s', chosen)) end
  return redis.call('ZRANGE', suspects, 0, 99)
end
local function take_groups(lease, n, chosen)
  local taken, kept, bytes, empty, all = 0, {}, 0, redis.call('LLEN', lease) < 2, false
  redis.call('PERSIST', lease) -- Redis allows this write at maxmemory, and then every later write of the script
  if queue_rate then n = math.min(n, tokens_in(queue_rate, '')) end
  while taken < n and bytes < 8388608 do
    if rest_empty then rest_empty() end
    local names, weight = in_front(math.min(n - taken, 500), chosen), 0
    local isolated = empty and taken == 0 and apart(chosen) or {}
    if #isolated > 0 and (#names == 0 or is_turn_of_isolated(tonumber(redis.call('GET', fence) or 0))) then
      return take_isolated(lease, n, isolated)
    end
    all = #names == 0
    if all then break end
    read_records(names)
    for i = 1, #names do weight = weight + weight_of(names[i]) end
    local plan, runs, left, had = {}, {}, n - taken, 0
    for i = 1, #names do runs[i] = {got = 0, wanted = 0} end
    while left > 0 and left ~= had do
      local shared = left
      had = left
      for i = 1, #names do
        local r, share = known[names[i]], math.floor(shared * weight_of(names[i]) / weight)
        local more = math.min(left, math.max(1, share), r.next - r.first - runs[i].wanted)
        if group_rate then more = math.min(more, tokens_of(names[i]) - runs[i].wanted) end
        runs[i].wanted, left = runs[i].wanted + more, left - more
      end
    end
    for i = 1, #names do
      for number = known[names[i]].first, known[names[i]].first + runs[i].wanted - 1 do
        plan[#plan + 1] = {name = names[i], number = number, run = runs[i]}
      end
    end
    if #plan == 0 then break end
    local at = 1
    while at <= #plan and bytes < 8388608 do
      local stop, held = fitting_to(plan, at, taken, bytes), redis.call('LLEN', lease) - 1
      local size, out = move_fields(lease, plan, at, stop)
      for i = at, stop do
        local run = plan[i].run
        if run.index and not run.at then run.at = held + run.index end
      end
      if #out > 0 then kept[#kept + 1] = out end
      taken, bytes, at = taken + #out, bytes + size, stop + 1
    end
    for i = 1, #runs do
      if runs[i].got < runs[i].wanted then skip_gaps(names[i], known[names[i]]) end
      if runs[i].got > 0 then served(names[i], known[names[i]], runs[i].got, runs[i].at) end
    end
    store(names)
  end
  keep_counts()
  return taken, kept, 0, 0, all
end
local function take(_, lease_to_fill, n, _, chosen)
  return timed and claimable_at(clock(), chosen) == 0 and 0 or take_groups(lease_to_fill, n, chosen)
end
