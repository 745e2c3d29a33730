-- Where messages go that a lease gives back. aside() puts one into `delayed` if it has a due time or an isolated group, else
-- into `back`; returns how many it put aside. to_front() then puts those in `back`, newest first, to the claim end.
-- For another layout they also get the place of the message in its lease, and whether it failed.
-- include: set_delayed
local function aside(keys, back, envelope, _, due, group)
  if due or group > 0 then
    set_delayed(keys.delayed, due or -group, envelope)
    return 1
  end
  back[#back + 1] = envelope
  return 0
end
-- In another layout, died() counts messages of the lease that have become dead letters.
local died
local function to_front(keys, back)
  if #back > 0 then redis.call('LPUSH', keys.ready, unpack(back)) end
end
