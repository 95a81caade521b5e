CREATE SCHEMA warehouse;
CREATE TABLE warehouse.sales (
    key text PRIMARY KEY,
    day date NOT NULL,
    customer text NOT NULL,
    cents int NOT NULL,
    attempt int NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);
