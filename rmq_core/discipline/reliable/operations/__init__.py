"""The operations of a reliable queue as exchanges: generators that yield requests and get replies. No IO, no clock."""
