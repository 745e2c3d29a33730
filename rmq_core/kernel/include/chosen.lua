-- Removes chosen entries of a list, which may be the messages that are ready.
-- include: chosen_in_list
local chosen_in, remove_chosen = chosen_in_list, remove_from_list
