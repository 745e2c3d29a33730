-- Takes an existing lease over; k and o as in claim.lua, and k.settled.
-- include: grant
-- include: head
-- include: mark
-- include: used_up
-- A part of a lease over several shards has the token of the lease in its own nonce, as '<fence>-<nonce>': a request from
-- before the last takeover of the lease comes too late.
local function is_outdated(token, nonce)
  local mine, present = string.match(nonce, '^(%d+)%-'), string.match(token, '%.(%d+)%-')
  return mine and present and tonumber(mine) < tonumber(present)
end
local function take_over(k, o, now, counted)
  local head = head_of(k.lease)
  if is_outdated(head.token, o.nonce) then return 'outdated' end
  local first = redis.call('LINDEX', k.lease, 1) or '' -- the home of a lease in parts has no messages
  if counted and string.sub(head.token, -#o.nonce) == o.nonce then counted = false end
  local count, settled = redis.call('LLEN', k.lease) - 1, redis.call('BITCOUNT', k.settled)
  if counted and used_up(first, head.takeovers, count, o.max_deliveries) then return 'exhausted' end
  if head.state == 'n' or head.state == 'x' then head.returned = 1 end -- until now the number of unsettled messages
  redis.call('PERSIST', k.leases) -- Redis allows this write at maxmemory, and then every later write of the script
  local mark = string.find(head.token, '.g', 1, true) and '.g' or '.'
  head.token = redis.call('INCRBY', k.fence, 2) .. mark .. o.nonce
  head.state = settled > 0 and 'p' or 'h'
  head.owner = o.owner or head.owner
  if counted then head.takeovers = head.takeovers + 1 end
  head.takeovers = o.takeovers or head.takeovers
  redis.call('LSET', k.lease, 0, head_text(head))
  local deadline = deadline_of(o, now)
  redis.call('ZADD', k.leases, deadline, o.id)
  local failures, group, most = mark_of(first)
  if group == 0 then failures, most = 0, 0 end
  return table.concat({'taken', head.token, deadline, count, failures, most, head.takeovers, settled, head.owner}, ' ')
end
