-- In another layout, ended_quickly() is called like ended(), and returns whether nothing else is to be done.
local ended_quickly
