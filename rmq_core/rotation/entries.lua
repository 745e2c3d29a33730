-- Returns a page of the entries of the list, in the order of popping; changes nothing.
-- KEYS: list  done
-- ARGV: offset:number, how many entries are before it  most:number, how many to return  last, SHA1 of the entry before,
--         '' for the first page  timeout_s:number, after which an entry is late
-- Reply: {1 if another entry is before the page now, else 0; id, a letter and how many of its entries are done, of each
--   entry...; SHA1 of the last entry}; the letter is n for a new, l for a late and p for one in progress.
-- include: clock
-- include: stamps
local now_s, before, moved = math.floor(clock() / 1000), offset > 0 and redis.call('LINDEX', list, -offset), 0
if last ~= '' and (not before or redis.sha1hex(before) ~= last) then moved = 1 end
local reply, page = {moved}, redis.call('LRANGE', list, -offset - most, -offset - 1)
for i = #page, 1, -1 do
  local id, stamp = stamp_of(page[i])
  local n, letter = #reply, 'n'
  if stamp then letter = is_late(stamp, now_s, timeout_s) and 'l' or 'p' end
  reply[n + 1], reply[n + 2], reply[n + 3] = id, letter, stamp and tonumber(redis.call('ZSCORE', done, id)) or 0
end
reply[#reply + 1] = #page > 0 and redis.sha1hex(page[1]) or ''
return reply
