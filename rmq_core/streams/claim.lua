-- Takes entries for a lease, which is a consumer of the group: new entries, and stale ones only if there is no new one.
-- Entries that the lease already holds, from a wait or because the call is a resend, are included.
-- KEYS: slot  stream
-- ARGV: seq  slot_ttl_ms  group  token  max_messages:number  stale_ms:number, after which an entry is stale
--       lease_ms:number
-- Reply: {'claimed' or 'reclaimed', deadline ms, {id, deliveries, payload}...},
--   {'empty', ms until the next entry is stale, or -1} or {'superseded'}.
-- include: clock
-- include: replay
-- include: group
-- include: holder
local verdict = replay()
if verdict == 'superseded' then return {verdict} end
local fresh = not verdict
if fresh then
  verdict = 'claimed'
  local have = #held(stream, group, token, max_messages)
  if have < max_messages then
    redis.call('XREADGROUP', 'GROUP', group, token, 'COUNT', max_messages - have, 'STREAMS', stream, '>')
  end
  if #held(stream, group, token, 1) == 0 then
    local ids, owners = {}, {}
    for _, entry in ipairs(redis.call('XPENDING', stream, group, 'IDLE', stale_ms, '-', '+', max_messages)) do
      ids[#ids + 1] = entry[1]
      owners[entry[2]] = true
    end
    if #ids > 0 then
      redis.call('XCLAIM', stream, group, token, stale_ms, unpack(ids))
      for owner in pairs(owners) do
        if string.find(owner, '^~.') then leave(stream, group, owner) end
      end
      verdict = 'reclaimed'
    end
  end
end
local reply, ids = {verdict, 0}, {}
local left = stale_ms
for _, entry in ipairs(held(stream, group, token, max_messages)) do
  local found = redis.call('XRANGE', stream, entry[1], entry[1])[1]
  if found then
    ids[#ids + 1] = entry[1]
    reply[#reply + 1] = {entry[1], entry[4], data_of(found[2])}
    left = stale_ms - entry[3]
  else
    redis.call('XACK', stream, group, entry[1]) -- deleted from the stream while it was pending
  end
end
if #ids == 0 then
  leave(stream, group, token)
  local due = -1
  for _, entry in ipairs(redis.call('XPENDING', stream, group, '-', '+', 100)) do
    local until_stale = math.max(1, stale_ms - entry[3])
    if due < 0 or until_stale < due then due = until_stale end
  end
  refuse('empty')
  return {'empty', due}
end
if fresh then
  left = lease_ms
  if left < stale_ms then since(stream, group, token, ids, stale_ms - left) end
  remember(verdict)
end
reply[2] = clock() + left
return reply
