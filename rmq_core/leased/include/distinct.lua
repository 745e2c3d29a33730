-- In another layout, distinct() returns the messages whose keys no unsettled message has, and a verdict for each; replace()
-- puts others in the places of messages that wait and have their keys.
local distinct, replace
