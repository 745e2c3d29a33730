-- Called when a lease has ended, whose keys are deleted; returns whether nothing else is to be done, by ended().
local function ended_quickly() return true end
