-- How long a nacked message waits. `delays` is '<n> <ms after n deliveries> <ms after n + 1 deliveries> ...': the client
-- computes the queue's backoff, which may be a user's Python code, but only a script knows the deliveries of each message.
-- Fewer deliveries than n wait like n, more than the text covers like its last. Returns nil if no message waits.
local function waits_of(delays)
  if delays == '1 0' then return nil end
  local waits, longest = {}, 0
  for number in string.gmatch(delays, '%d+') do
    if not waits.least then waits.least = tonumber(number)
    else
      waits[#waits + 1] = tonumber(number)
      longest = math.max(longest, waits[#waits])
    end
  end
  return longest > 0 and waits or nil
end
-- Returns when a message with so many deliveries is ready again, in ms; nil if that is now.
local function due_after(waits, count, now)
  local ms = waits[math.min(math.max(count - waits.least + 1, 1), #waits)]
  return ms > 0 and now + ms or nil
end
