-- Puts messages of a lease back to the front of their groups. Where one lease holds a group, each gets its own place again,
-- whatever the order in which they come, and a group whose message has to wait rests until then. Isolated messages that
-- failed go to the end of theirs.
-- KEYS: group_holds, hash: group -> '<index in the lease of its first message> <number that this one gets when it comes back>'
-- include: ready
-- include: set_delayed
-- include: tallied
local function died(envelopes) tallied(envelopes, {leased = -1, dead = 1}) end
local function aside(keys, back, envelope, index, due, _, failed)
  tallied({envelope}, {leased = -1, waiting = 1})
  if due and not (limit == 1 and is_limited(group_named(envelope))) then
    set_delayed(keys.delayed, due, envelope)
    return 1
  end
  back[#back + 1] = {envelope, index, due or 0, failed}
  return 0
end
local function to_front(_, back)
  keep_counts()
  if #back == 0 then return end
  local envelopes, fields, runs, used = {}, {}, {}, {}
  for i = 1, #back do envelopes[i] = back[i][1] end
  local of, names, isolated, plain = names_of(envelopes)
  local held = redis.call('HMGET', group_holds, unpack(names))
  for i = 1, #names do
    local index, number = string.match(held[i] or '', '^(%d+) (%S+)$')
    if index and limit == 1 then runs[names[i]] = number - index end
  end
  for i = 1, #back do
    local r = known[of[i]]
    local number = runs[of[i]] and runs[of[i]] + back[i][2] or r.first - 1
    -- While another limit was in force, another message may have got that place.
    local field = of[i] .. '\0' .. number
    if number >= r.first and (used[field] or redis.call('HEXISTS', grouped, field) == 1) then number = r.first - 1 end
    if isolated[i] and back[i][4] and not is_limited(of[i]) then number = r.next end
    used[of[i] .. '\0' .. number] = true
    r.first, r.next = math.min(r.first, number), math.max(r.next, number + 1)
    r.until_ms = math.max(r.until_ms, back[i][3])
    if isolated[i] then r.suspects = r.suspects + 1 end
    put(fields, of[i], r, number, envelopes[i], plain)
  end
  put_all(fields, names)
end
