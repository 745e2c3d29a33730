-- Messages that wait in groups: a deque for each group, and the groups that may be claimed in the order of their turns.
-- Each group with messages is in `turns`, in `suspects` if its next message is isolated, or in `resting` until it may be
-- claimed again. Numbers stay below 10^14, so Lua writes them out in full.
-- KEYS: ready, a string: '<how many leases may hold a group at once, 0 for any number>', and if there are any,
--         ' rate=<us for one message>*<burst>', ' group_rate=...' and ' <weights as JSON>'
--       groups, hash: group -> its record, see read_records; '\0' -> '<virtual time> <messages that may be claimed>
--         <messages>'
--       grouped, hash: '<group>\0<number>' -> envelope; numbers need not be consecutive
--       turns  suspects  resting  leases  timer  held_before, set of leases that are older than the limit, until the last of
--         them has ended
-- include: clock
-- include: envelope
-- include: mark
-- include: group_in
-- include: expiry
-- include: unique
local policy = redis.call('GET', ready)
if not policy or not string.find(policy, '^%d') then return redis.error_reply('WRONGTYPE the queue has no groups') end
local in_groups, known, line = true, {}, nil
local limit, rates, weights = string.match(policy, '^(%d+) ?([^{]*)(.*)$')
limit, weights = tonumber(limit), weights ~= '' and cjson.decode(weights) or nil
local formatted = string.format -- `..` takes twice as long for a number
redis.call('ZCARD', turns) -- refuses a wrong type before anything is written
redis.call('ZCARD', resting)
redis.call('ZCARD', suspects)
-- include: rate
local function line_of()
  if not line then
    local time, claimable, count = string.match(redis.call('HGET', groups, '\0') or '0 0 0', '^(%S+) (%S+) (%S+)$')
    line = {time = tonumber(time), claimable = tonumber(claimable), count = tonumber(count)}
  end
  return line
end
-- Returns the group of a message, '' without one. Isolated messages of a group that any number of leases may hold are a
-- group of their own, so that they do not stop the others: its name ends with '\1'. So are those with a priority, behind
-- '\2'. The second result is whether the message is isolated.
local function group_named(envelope)
  local length, stop = string.match(envelope, '^%d+ %d+ (%d+) ()')
  if not length then return '', false end
  local name, isolated = group_in(envelope, stop + length), false
  if length ~= '0' then
    local _, group = mark_of(envelope)
    isolated = group > 0
  end
  if limit == 0 or name == '' then
    local priority = priority_in(envelope, stop + length)
    name = name .. (priority and '\2' .. priority or '') .. (isolated and '\1' or '')
  end
  return name, isolated
end
local function is_limited(name) return limit > 0 and (string.byte(name) or 0) > 2 end
-- The turns of a higher priority come before all of a lower one.
local function line_score(name, turn)
  local priority = string.find(name, '\2', 1, true) and string.match(name, '\2(%d)')
  return priority and formatted('%.0f', turn - priority * 1e14) or formatted('%d', turn)
end
local function is_suspect(name) return known[name].suspects > 0 or string.byte(name, -1) == 1 end
-- Reads records: '<place: t in turns, s in suspects, r resting, n none> <first number> <next number> <messages>
-- <leases that hold it> <virtual time of its turn> <isolated messages, at most> <ms until which it rests>'.
local function read_records(names)
  local missing = {}
  for i = 1, #names do
    if known[names[i]] == nil then
      known[names[i]] = false
      missing[#missing + 1] = names[i]
    end
  end
  for lo = 1, #missing, 4000 do
    local got = redis.call('HMGET', groups, unpack(missing, lo, math.min(#missing, lo + 3999)))
    for i = 1, #got do
      local place, first, next, count, active, turn, suspects, until_ms = 'n', 0, 0, 0, 0, 0, 0, 0
      if got[i] then
        place, first, next, count, active, turn, suspects, until_ms =
          string.match(got[i], '^(%a) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$')
      end
      -- To add 0 makes a number of a text in half of the time that tonumber takes.
      known[missing[lo + i - 1]] = {
        place = place, was = place, first = first + 0, next = next + 0, count = count + 0, active = active + 0,
        turn = turn + 0, was_turn = turn + 0, suspects = suspects + 0, until_ms = until_ms + 0}
    end
  end
end
local function record_of(name)
  if not known[name] then read_records({name}) end
  return known[name]
end
local function weight_of(name) return weights and (weights[name] or weights[string.match(name, '^[^\1\2]*')]) or 1 end
local function cost_of(name) return math.ceil(100 / weight_of(name)) end
local calls = {
  HSET = function(key, ...) redis.call('HSET', key, ...) end,
  HDEL = function(key, ...) redis.call('HDEL', key, ...) end,
  ZADD = function(key, ...) redis.call('ZADD', key, ...) end,
  ZREM = function(key, ...) redis.call('ZREM', key, ...) end,
}
local function in_slices(command, key, items)
  for lo = 1, #items, 4000 do calls[command](key, unpack(items, lo, math.min(#items, lo + 3999))) end
end
local function in_line(r) return r.place == 't' or r.place == 's' end
-- Gives groups that are in no line their place. A group that had no messages joins at the end of the round.
local function enter(names)
  local now, l = clock(), line_of()
  for i = 1, #names do
    local name, r = names[i], known[names[i]]
    local place = is_suspect(name) and 's' or 't'
    if in_line(r) and r.place ~= place then r.place, l.claimable = 'n', l.claimable - r.count end
    if r.place == 'n' and r.count > 0 then
      local bucket, rest = group_rate and bucket_of(name), r.until_ms
      if bucket then rest = math.max(rest, token_at(group_rate, bucket)) end
      if is_limited(name) and r.active >= limit then r.place, r.rest = 'r', '+inf'
      elseif rest > now or bucket and tokens_of(name) < 1 then r.place, r.rest = 'r', rest
      else
        r.place, r.turn = place, math.max(r.turn, l.time + cost_of(name))
        l.claimable = l.claimable + r.count
      end
    end
  end
end
-- Stores the records of these groups, which were changed.
local function store(names)
  local l, set, gone, to, off, n = line_of(), {}, {}, {t = {}, s = {}, r = {}}, {t = {}, s = {}, r = {}}, 0
  for i = 1, #names do
    local name, r = names[i], known[names[i]]
    if r.count == 0 then r.place, r.suspects = 'n', 0 end
    local line_to, line_off, moved = to[r.place], off[r.was], r.was ~= r.place
    if in_line(r) and (moved or r.turn ~= r.was_turn) then r.rest = line_score(name, r.turn) end
    if line_to and r.rest then line_to[#line_to + 1], line_to[#line_to + 2] = r.rest, name end
    if line_off and moved then line_off[#line_off + 1] = name end
    r.was, r.was_turn, r.rest = r.place, r.turn, nil
    if r.count == 0 and r.active == 0 then gone[#gone + 1], known[name] = name, nil
    else
      local rest = r.suspects + r.until_ms == 0 and '0 0' or formatted('%d %d', r.suspects, r.until_ms)
      set[n + 1], set[n + 2] = name, formatted('%s %d %d %d %d %d %s', r.place, r.first, r.next, r.count, r.active, r.turn, rest)
      n = n + 2
    end
  end
  set[n + 1], set[n + 2] = '\0', formatted('%d %d %d', l.time, l.claimable, l.count)
  in_slices('ZREM', expiring, leaving)
  in_slices('ZADD', expiring, entering)
  in_slices('HSET', unique, placing)
  entering, leaving, placing = {}, {}, {}
  in_slices('HSET', groups, set)
  in_slices('HDEL', groups, gone)
  for place, key in pairs({t = turns, s = suspects, r = resting}) do
    in_slices('ZADD', key, to[place])
    in_slices('ZREM', key, off[place])
  end
  if drawn and #drawn > 0 then
    redis.call('ZREMRANGEBYSCORE', buckets, '-inf', string.format('%.0f', micros)) -- full ones
    in_slices('ZADD', buckets, drawn)
    redis.call('PEXPIRE', buckets, full_ms)
    drawn = {}
  end
end
-- Moves the first number of a group to its first message.
local function skip_gaps(name, r)
  if r.count == 0 then r.first = r.next end
  while r.first < r.next and redis.call('HEXISTS', grouped, name .. '\0' .. r.first) == 0 do r.first = r.first + 1 end
end
-- Returns the group of each message, the names of all these groups, which messages are isolated, and whether all of them have
-- no other header. put() then adds each to `fields`, under a number of its group, and put_all() stores them.
local function names_of(envelopes)
  local plain = only_grouped(envelopes)
  local of, names, met, isolated = plain or {}, {}, {}, {}
  for i = 1, #envelopes do
    if not plain then of[i], isolated[i] = group_named(envelopes[i]) end
    local name = of[i]
    if not met[name] then met[name], names[#names + 1] = true, name end
  end
  read_records(names)
  for i = 1, #names do known[names[i]].had = known[names[i]].count end
  return of, names, isolated, plain ~= nil
end
local function put(fields, name, r, number, envelope, plain)
  if not plain then
    local stored, expires = dated(envelope, (history_end(envelope) or #envelope) + 1)
    if expires then enters(expires, name, number) end
    local digest = digest_in(envelope)
    if digest then placed[digest], placing[#placing + 1], placing[#placing + 2] = true, digest, 'w' .. number end
    envelope = stored
  end
  local n = #fields
  fields[n + 1], fields[n + 2] = formatted('%s\0%d', name, number), envelope
  r.count = r.count + 1
end
local function put_all(fields, names)
  local l = line_of()
  for i = 1, #names do
    local r = known[names[i]]
    l.count = l.count + r.count - r.had
    if in_line(r) then l.claimable = l.claimable + r.count - r.had end
  end
  in_slices('HSET', grouped, fields)
  enter(names)
  store(names)
end
-- Adds messages at the ends of their groups.
local function enqueue(envelopes)
  local of, names, isolated, plain = names_of(envelopes)
  local fields = {}
  for i = 1, #envelopes do
    local r = known[of[i]]
    put(fields, of[i], r, r.next, envelopes[i], plain)
    r.next = r.next + 1
    if isolated[i] then r.suspects = r.suspects + 1 end
  end
  put_all(fields, names)
end
local function size_of() return line_of().count end
-- Returns the lines in which messages of some groups wait: a group has several, for priorities and isolated messages. None
-- where claims are limited in time: who waits for some groups would not be told when these get a token.
local function lines_of(text)
  if rates ~= '' then return nil end
  local names = {}
  for group in string.gmatch(text .. '\0', '([^%z]*)%z') do
    names[#names + 1] = group
    if limit == 0 or group == '' then
      names[#names + 1] = group .. '\1'
      for priority = 1, 9 do
        names[#names + 1], names[#names + 2] = group .. '\2' .. priority, group .. '\2' .. priority .. '\1'
      end
    end
  end
  return names
end
-- Returns those of the chosen lines that are in this place, in the order of their turns.
local function in_order(place, chosen)
  local found, scores = {}, {}
  read_records(chosen)
  for i = 1, #chosen do
    local name, r = chosen[i], known[chosen[i]]
    if r.place == place then found[#found + 1], scores[name] = name, tonumber(line_score(name, r.turn)) end
  end
  table.sort(found, function(a, b) return scores[a] < scores[b] or (scores[a] == scores[b] and a < b) end)
  return found, scores
end
local function claimable_in(names)
  local count = 0
  read_records(names)
  for i = 1, #names do
    if in_line(known[names[i]]) then count = count + known[names[i]].count end
  end
  return count
end
-- Whether a lease from before the limit still holds messages, whose groups are not known.
local function is_unsettled_before()
  if limit == 0 or redis.call('EXISTS', held_before) == 0 then return false end
  for _, id in ipairs(redis.call('SMEMBERS', held_before)) do
    if not redis.call('ZSCORE', leases, id) then redis.call('SREM', held_before, id) end
  end
  return redis.call('EXISTS', held_before) == 1
end
-- include: overdue
-- Lets the groups in front rest whose buckets are empty, so that the first one has a token. It moves 1,000 at most.
local unsure = false
local rest_empty = group_rate and function()
  unsure = false
  for _, key in ipairs({turns, suspects}) do
    local names = redis.call('ZRANGE', key, 0, 0)
    for _ = 1, 2 do
      if #names == 0 or tokens_of(names[1]) > 0 then break end
      local spent = {}
      names = redis.call('ZRANGE', key, 0, 499)
      for i = 1, #names do
        if tokens_of(names[i]) < 1 then spent[#spent + 1] = names[i] end
      end
      read_records(spent)
      for i = 1, #spent do
        local r = known[spent[i]]
        r.place, line_of().claimable = 'n', line_of().claimable - r.count
      end
      enter(spent)
      store(spent)
      names = redis.call('ZRANGE', key, 0, 0)
    end
    unsure = unsure or #names > 0 and tokens_of(names[1]) < 1
  end
end
local function claimable_now()
  return queue_rate and math.min(line_of().claimable, tokens_in(queue_rate, '')) or line_of().claimable
end
local function claimable_at(now, chosen)
  if redis.call('ZCOUNT', resting, '-inf', now) > 0 then
    local names = redis.call('ZRANGEBYSCORE', resting, '-inf', now, 'LIMIT', 0, 500)
    read_records(names)
    for i = 1, #names do
      local r = known[names[i]]
      r.place, r.until_ms = 'n', r.until_ms > tonumber(now) and r.until_ms or 0
    end
    enter(names)
    store(names)
  end
  local more = timed and bury(now) or 0 -- a claim must not get one of these
  if rest_empty then rest_empty() end
  if more > 0 or unsure or is_unsettled_before() then return 0 end
  return chosen and claimable_in(chosen) or claimable_now()
end
-- Returns when claims may get a message, where they get none now; nil if no time lets them.
local function next_claim()
  local token = queue_rate and token_at(queue_rate, '') or 0
  if unsure then return clock() end
  if token > 0 and line_of().claimable > 0 then return token end
  local rest = redis.call('ZRANGEBYSCORE', resting, 0, '(+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  return rest and math.max(rest, token)
end
-- Where claims are limited, one waiting claim sleeps until the next token. Whether it has to be an earlier one.
local function is_token_sooner()
  if rates == '' then return false end
  local due, at = string.match(redis.call('GET', timer) or '', '^%d+'), next_claim()
  return at ~= nil and (not due or at < tonumber(due))
end
local function is_news() return rates == '' or claimable_at(clock()) > 0 or is_token_sooner() end
local function append(messages)
  enqueue(messages)
  return is_news()
end
