-- distinct() returns the messages whose keys are not taken, and a verdict for each, '1', '0', or '2' if it is to replace the
-- message that has its key; no verdicts where none has a key. It decides as if the messages were added one by one.
-- ARGV: replaces, '1' if a message replaces one that waits in the same line
-- include: ready
-- include: arrived
local replacing = {}
-- Returns whether the message that has a key waits in this line. An isolated one is not replaced: it may be poison, and
-- its group is tried apart.
local function waits_in(name, place, digest)
  local envelope = string.byte(place) == 119 and redis.call('HGET', grouped, name .. '\0' .. string.sub(place, 2))
  if not envelope or digest_in(envelope) ~= digest then return false end
  local _, isolated = group_named(envelope)
  return not isolated
end
local function distinct(messages, is_delayed)
  if #digests_in(messages) == 0 then return messages, nil end
  local fresh, verdicts, met = {}, {}, {}
  for i = 1, #messages do
    local digest, verdict = digest_in(messages[i]), '1'
    local name = digest and replaces == '1' and not is_delayed and group_named(messages[i])
    if digest and met[digest] then verdict = met[digest] == name and '2' or '0'
    elseif digest then
      local place = redis.call('HGET', unique, digest)
      if is_free(place) then met[digest] = name or true
      else verdict = name and waits_in(name, place, digest) and '2' or '0' end
    end
    if verdict == '1' then fresh[#fresh + 1] = messages[i] end
    if verdict == '2' then replacing[#replacing + 1] = {messages[i], name, digest} end
    verdicts[i] = verdict
  end
  return fresh, verdicts
end
-- Puts messages in the places of those that they replace, after the others were added; returns the ids of the replaced.
local function replace()
  local ids = {}
  for i = 1, #replacing do
    local message, name, digest = unpack(replacing[i])
    local number = string.sub(redis.call('HGET', unique, digest), 2)
    local field, entry = name .. '\0' .. number, entry_of(name, number)
    local before = redis.call('HGET', grouped, field)
    local stored, expires = dated(message, history_end(message) + 1)
    redis.call('HSET', grouped, field, stored)
    redis.call('ZREM', expiring, entry)
    if expires then redis.call('ZADD', expiring, expires, entry) end
    counted({before}, {waiting = -1, removed = 1})
    count_new({message})
    ids[i] = message_id(before)
  end
  if #ids > 0 then keep_counts() end
  replacing = {}
  return ids
end
