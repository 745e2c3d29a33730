"""The operations of a leased queue as exchanges: generators that yield requests and get replies. No IO, no clock."""
