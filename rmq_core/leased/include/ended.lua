-- Called when a lease has ended, whose keys are deleted. In another layout, this lets others have what the lease held.
local function ended() end
