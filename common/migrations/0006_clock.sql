-- The latest time that a notifier saw on the database's clock: one that is ahead tells that the clock was set back.
CREATE TABLE clock (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  seen timestamptz NOT NULL DEFAULT now()
);
INSERT INTO clock DEFAULT VALUES;
