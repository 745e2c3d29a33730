-- The entries of a reliable queue. Each is an envelope, identified by its message id. Text that a foreign client pushed
-- is its own id.
-- A claim is '<token> <claimed ms> <until ms, 0 for as long as the reaper allows>'.
-- include: envelope
local function id_of(entry)
  return message_id(entry) or entry
end
local function holder(claim)
  return claim and string.match(claim, '^%S+')
end
