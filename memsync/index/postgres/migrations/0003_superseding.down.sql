DROP INDEX fact_superseding;
