-- Removes chosen entries of a list; waiting messages are found in their groups.
-- include: chosen_in_list
-- include: drop_entry
local function chosen_in(list, side, first, last, letters)
  if list ~= ready then return chosen_in_list(list, side, first, last, letters) end
  local found = {}
  for i = 1, #letters do
    if drop_entry(list, letters[i], 'oldest') == 1 then found[#found + 1] = letters[i] end
  end
  return {}, found
end
local function remove_chosen(list, side, places, gone)
  if list ~= ready then remove_from_list(list, side, places, gone) end
end
