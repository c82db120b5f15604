-- A record of attempts rings for its endpoint only where something waits for it.
ALTER TABLE endpoints ADD crowded boolean NOT NULL DEFAULT false; -- more is due than may be under way: a look when one ends
