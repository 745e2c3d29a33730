-- Starts a lease of one ready message, if there is one and that is simple; k and o as in grant. chosen: the argument
-- from_groups of claim.lua, if it has one.
-- include: hold
local function hold_quickly(k, o, now, chosen)
  if not chosen and redis.call('LLEN', ready) > 0 then return hold_one(k, o, now) end
end
