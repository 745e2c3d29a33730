-- take_groups() moves up to n messages from the groups whose turn it is to the end of a lease, about 8 MiB of them at
-- most. By start-time fair queueing (Goyal et al., 1996), each group in line gets its share, in order; its turn then
-- comes later by what it got, divided by its weight. chosen: only from these lines. Returns how many messages it moved,
-- the batches, for isolated messages how often they failed together and how many of them a claim may get, else 0 and 0,
-- and whether the lease is to get no more.
-- KEYS: group_holds  lease  fence
-- include: ready
-- include: turns
-- include: tallied
-- Counts what groups have given to the lease: runs has for each name how many (got) and the index of the first of them (index).
-- held: whether the lease may have messages of these groups from before.
local function served(names, runs, held)
  local l, full, limited, added = line_of(), {}, {}, {}
  for i = 1, #names do
    if runs[i].got > 0 and is_limited(names[i]) then limited[#limited + 1] = names[i] end
  end
  local before = held and #limited > 0 and redis.call('HMGET', group_holds, unpack(limited)) or {}
  for i = 1, #limited do limited[limited[i]] = not before[i] end
  for i = 1, #names do
    local name, got = names[i], runs[i].got
    if got > 0 then
      local r, cost = known[name], cost_of(name)
      l.count, l.claimable = l.count - got, l.claimable - got
      l.time, r.turn = math.max(l.time, r.turn + cost * (got - 1)), r.turn + cost * got
      local bucket = group_rate and bucket_of(name)
      if queue_rate then draw(queue_rate, '', got) end
      if bucket then draw(group_rate, bucket, got) end
      if limited[name] then -- the lease has not held this group before
        added[#added + 1], added[#added + 2] = name, formatted('%d %d', runs[i].index, r.first - got)
        r.active = r.active + 1
      end
      if is_limited(name) and r.active >= limit or bucket and tokens_of(name) < 1 then
        l.claimable = l.claimable - r.count
        r.place, full[#full + 1] = 'n', name
      end
    end
  end
  in_slices('HSET', group_holds, added)
  enter(full)
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
    served({name}, {{got = got, index = index + taken - got}}, true)
    if taken >= n then break end
  end
  enter(changed)
  store(changed)
  keep_counts()
  return taken, kept, failures, most, true -- a lease has nothing else beside messages of a line of isolated ones
end
-- Reads and removes the messages of a plan from `lo` to `hi`, and appends them to the lease, which has `held` of them.
-- Returns their bytes, and a batch.
local function move_fields(lease, plan, lo, hi, held)
  local got, out, bytes, stop = redis.call('HMGET', grouped, unpack(plan.fields, lo, hi)), {}, 0, nil
  redis.call('HDEL', grouped, unpack(plan.fields, lo, hi))
  repeat
    local run, had = plan.runs[plan.at], #out
    stop = math.min(hi, run.to)
    for i = run.to - run.wanted + 1 + run.passed, stop do
      local envelope = got[i - lo + 1]
      if envelope then
        out[#out + 1], bytes = envelope, bytes + #envelope
        if timed then leaves(run.name, run.first + i - run.to + run.wanted - 1) end
      end
    end
    if run.got == 0 then run.index = held + had end
    run.got, run.passed = run.got + #out - had, stop - run.to + run.wanted
    if stop == run.to then plan.at = plan.at + 1 end
  until stop == hi
  if #out > 0 then redis.call('RPUSH', lease, unpack(out)) end
  tallied(out, {waiting = -1, leased = 1})
  return bytes, out
end
-- Returns up to where the next messages of a plan are taken; see fitting.lua.
local function fitting_to(fields, at, taken, bytes)
  local stop, size = math.min(#fields, at + (taken > 0 and 511 or 127)), taken > 0 and bytes / taken or 0
  for _, i in ipairs({at, stop}) do size = math.max(size, redis.call('HSTRLEN', grouped, fields[i])) end
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
    local runs, fields, left, had = {}, {}, n - taken, 0
    for i = 1, #names do
      runs[i] = {name = names[i], first = known[names[i]].first, wanted = 0, passed = 0, got = 0}
    end
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
      local run, at = runs[i], #fields
      for number = 1, run.wanted do fields[at + number] = formatted('%s\0%d', run.name, run.first + number - 1) end
      run.to = at + run.wanted
    end
    if #fields == 0 then break end
    local plan, at, held = {runs = runs, fields = fields, at = 1}, 1, redis.call('LLEN', lease) - 1
    local some = held > 0
    while at <= #fields and bytes < 8388608 do
      local stop = fitting_to(fields, at, taken, bytes)
      local size, out = move_fields(lease, plan, at, stop, held)
      if #out > 0 then kept[#kept + 1] = out end
      taken, bytes, at, held = taken + #out, bytes + size, stop + 1, held + #out
    end
    for i = 1, #runs do
      local run, r = runs[i], known[names[i]]
      r.first, r.count = run.first + run.passed, r.count - run.got
      if run.got < run.wanted then skip_gaps(names[i], r) end
    end
    served(names, runs, some)
    store(names)
  end
  keep_counts()
  return taken, kept, 0, 0, all
end
local function take(_, lease_to_fill, n, _, chosen)
  return timed and claimable_at(clock(), chosen) == 0 and 0 or take_groups(lease_to_fill, n, chosen)
end
