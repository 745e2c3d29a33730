-- Returns a dead letter of a reliable queue with a fresh delivery budget. Text that is no envelope has none.
-- include: entries
local function forgiven(letter)
  if id_of(letter) == letter then return letter end
  return '0' .. string.sub(letter, (string.find(letter, ' ', 1, true)))
end
