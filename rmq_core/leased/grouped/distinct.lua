-- Returns the messages whose keys are not taken, and a verdict for each, '1' or '0'; no verdicts where none has a key.
-- include: unique
local function distinct(messages)
  if #digests_in(messages) == 0 then return messages, nil end
  local fresh, verdicts, met = {}, {}, {}
  for i = 1, #messages do
    local digest = digest_in(messages[i])
    local is_fresh = not digest or not met[digest] and is_free(redis.call('HGET', unique, digest))
    if digest then met[digest] = true end
    if is_fresh then fresh[#fresh + 1] = messages[i] end
    verdicts[i] = is_fresh and '1' or '0'
  end
  return fresh, verdicts
end
