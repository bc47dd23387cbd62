/* Migrations: each once, in the order of their numbers, also one that comes to stand between others. */
import { migrate, readMigrations } from '../../core/store/migrate'
import { openSqlite } from '../../core/store/sqlite'
import { sql } from '../../core/store/sql'

it('a migration that is missing between others is applied too, and none of them twice', async () => {
  const connection = openSqlite({ file: ':memory:' })
  const made = (number: number): { number: number; statements: string[] } => ({ number, statements: [`CREATE TABLE made_${String(number)} (a TEXT)`] })
  await migrate(connection, [made(1), made(3)], 1)
  await migrate(connection, [made(1), made(2), made(3), made(4)], 2)
  await migrate(connection, [made(1), made(2), made(3), made(4)], 3)
  const rows = await connection.query(sql('SELECT number, applied_at FROM migrations ORDER BY number'))
  expect(rows).toEqual([{ number: 1, applied_at: 1 }, { number: 2, applied_at: 2 }, { number: 3, applied_at: 1 }, { number: 4, applied_at: 2 }])
  await expect(migrate(connection, [made(1)], 4)).rejects.toMatchObject({ code: 'schema_too_new' })
  await connection.close()
})

it('the numbers of the migrations rise, and each is one file of a dialect', () => {
  const numbers = readMigrations('sqlite').map(({ number }) => number)
  expect(numbers).toEqual([...new Set(numbers)].sort((left, right) => left - right))
})
