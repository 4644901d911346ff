-- The attributes by which an entry says that something is superseded: a search reads them all. The next sync reads every
-- note again, because the parser's version is another one.
CREATE INDEX fact_superseding ON fact (root) WHERE key ~* 'supersede';
