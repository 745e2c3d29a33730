-- Counts messages that a lease gets or gives back, and in what the lease holds.
-- KEYS: group_holds
-- include: publications
-- include: unique
local some_tallied
local function tallied(envelopes, changes)
  -- Without these keys, no message in a group or a lease is counted or has a key.
  if some_tallied == nil then some_tallied = redis.call('EXISTS', publications, unique) > 0 end
  if not some_tallied then return end
  local place = changes.waiting == 1 and 'w' or changes.leased == 1 and 'l' .. string.match(group_holds, '}:holds:(.*)$')
  set_unique(envelopes, place or nil)
  for name, n in pairs(counted(envelopes, changes)) do
    redis.call('HINCRBY', group_holds, '\1' .. name, changes.leased * n)
  end
end
