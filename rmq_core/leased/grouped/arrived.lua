-- Counts messages that were added to the queue. letters: the dead letters that they were before.
-- include: publications
-- include: unique
local function count_new(envelopes)
  local until_ms = clock() + SILENT_MS
  for name in pairs(counted(envelopes, {total = 1, waiting = 1})) do counts_of(name).until_ms = until_ms end
end
local function arrived(envelopes, letters)
  if set_unique(envelopes, 'w') then drop_some() end
  if letters and publication_of(letters[1]) == publication_of(envelopes[1]) then
    counted(letters, {dead = -1, waiting = 1})
  else -- new ones, or an edited one
    if letters then counted(letters, {dead = -1, removed = 1}) end
    count_new(envelopes)
  end
  keep_counts()
end
