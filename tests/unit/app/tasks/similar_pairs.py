"""Pairs of tasks that a person called alike, or not: what the threshold of the warning is set by."""

from __future__ import annotations

from typing import NamedTuple


class Pair(NamedTuple):
    """Two tasks, each a title and a scope, and whether a no to one says something about the other."""

    is_alike: bool
    one: tuple[str, str]
    other: tuple[str, str]


ALIKE = [
    (
        (
            "Add OAuth login with Google",
            "Users sign in with their Google account; sessions stay as they are.",
        ),
        ("OAuth login via Google accounts", "Let users sign in with Google."),
    ),
    (
        ("Migrate the billing tables to Postgres 16", "All billing tables, no downtime."),
        ("Migrate billing database to Postgres 17", "Move the billing tables over without downtime."),
    ),
    (
        ("Make tests pass offline", "Two tests download a file."),
        ("Tests must run offline", "Some tests still download files from the network."),
    ),
    (
        ("Upgrade billing service to Spring Boot 3.2", "All modules on Boot 3.2 and Java 17."),
        ("Upgrade order service to Spring Boot 3.2", "Boot 3.2 and Java 17 in every module."),
    ),
    (
        ("Dark mode for the settings page", ""),
        ("Add a dark mode to the settings page", "Follow the system's theme."),
    ),
    (
        ("Export invoices as PDF", "Uses the render service."),
        ("PDF export of invoices", "A button on the invoice page; the render service makes the file."),
    ),
    (
        ("Fix flaky test_checkout_timeout in CI", ""),
        ("test_checkout_timeout is flaky again", "Fails one run in ten."),
    ),
    (
        ("Rate limit the public search API", "100 requests a minute per key."),
        ("Rate limiting for search API", "Limit requests per API key."),
    ),
    (
        ("Replace QtWebKit by QtWebEngine", "Change module name in the project file and fix includes."),
        ("Port help viewer from QtWebKit to QtWebEngine", "Only the help viewer is left."),
    ),
    (
        ("Publish release 0.5.0 to crates.io", "Tag and publish all 38 workspace crates."),
        ("Publish release 0.6.0 to crates.io", "Tag and publish all workspace crates."),
    ),
    (
        ("Add retry to the PDF mailer", "smtplib call in mailer.py, retry once after 5 s."),
        ("Retry failed mails in mailer.py", "The smtplib call is not retried."),
    ),
    (
        ("Crawl citation counts for 40k papers", "One-off crawl, finish this week."),
        ("Crawl citation counts for 90k papers", "Second crawl."),
    ),
    (
        ("Remove the pandas dependency from the importer", "Use csv instead."),
        ("Drop pandas from the importer", "The importer should not depend on pandas."),
    ),
    (
        ("Encrypt backups at rest", "AES key from the vault, nightly job."),
        ("Nightly backups must be encrypted", "Take the AES key from the vault."),
    ),
    (
        ("getUserProfile returns stale data", "Cache is not cleared after an update."),
        ("Stale data in getUserProfile", "The profile cache is not invalidated."),
    ),
    (
        ("Upgrade Node on the build agents", "Node 20 on all four agents."),
        ("Upgrade Node to 22 on the build agents", ""),
    ),
    (
        ("Kundenimport aus CSV-Dateien beschleunigen", "Der Import von 100.000 Zeilen dauert zu lange."),
        ("CSV-Import der Kunden schneller machen", "Importieren von Zeilen dauert Stunden."),
    ),
    (
        ("Anmeldung über LDAP einrichten", "Die Benutzer kommen aus dem Firmenverzeichnis."),
        ("LDAP-Anmeldung für alle Benutzer", "Anmeldung gegen das Firmenverzeichnis."),
    ),
    (
        ("Migrar la base de datos de facturas a PostgreSQL", "Sin interrupción del servicio."),
        ("Migración de facturas a PostgreSQL", "La base de datos de facturas, sin parar el servicio."),
    ),
    (
        ("Ajouter la pagination à la liste des commandes", "50 commandes par page."),
        ("Pagination de la liste des commandes", "La page est lente avec 10 000 commandes."),
    ),
    (
        ("Перенести авторизацию на OAuth", "Все пользователи входят через OAuth."),
        ("Авторизация через OAuth", "Пользователи должны входить через OAuth."),
    ),
    (
        ("为登录页面添加验证码", "防止暴力破解，使用图形验证码。"),
        ("登录页面加入图形验证码", "防止暴力破解登录。"),
    ),
    (
        ("将订单数据库迁移到PostgreSQL", "不停机迁移所有订单表。"),
        ("订单数据库迁移到PostgreSQL 16", "所有订单表，不停机。"),
    ),
    (
        ("ログイン画面に二要素認証を追加", "認証アプリのコードを入力する。"),
        ("二要素認証をログイン画面に実装", "認証アプリを使う。"),
    ),
    (
        ("로그인 페이지에 이중 인증 추가", "인증 앱의 코드를 입력한다."),
        ("이중 인증을 로그인 페이지에 구현", "인증 앱 사용."),
    ),
    (("เพิ่มการยืนยันตัวตนสองชั้นในหน้าเข้าสู่ระบบ", ""), ("การยืนยันตัวตนสองชั้นสำหรับหน้าเข้าสู่ระบบ", "")),
    (
        ("Support Windows paths in the sync client", "pathlib is used already."),
        ("Sync client breaks on Windows paths", "Use pathlib everywhere."),
    ),
    (
        ("Load newer savegames in the older engine", "Ignore unknown fields when loading."),
        ("Older engine cannot load newer savegames", "Unknown fields should be ignored."),
    ),
]

APART = [
    (("Add OAuth login with Google", "Users sign in with their Google account."),
     ("Add Google Analytics to the landing page", "Count visits per page.")),
    (("Add dark mode to the settings page", ""), ("Add export button to the settings page", "")),
    (("Add tests for query/search.py to improve coverage from 26% to 80%", "Add unit tests."),
     ("Add tests for persistence/wal.py to improve coverage from 60% to 80%", "Add unit tests.")),
    (("Fix the login bug", ""), ("Fix the checkout bug", "")),
    (("Update documentation", "The README is out of date."), ("Update dependencies", "Several are out of date.")),
    (("Fix crash on startup", "NullPointerException in MainActivity."),
     ("Fix crash in the image editor", "Out of memory on large photos.")),
    (("Migrate the billing tables to Postgres 16", "All billing tables, no downtime."),
     ("Add an index to the orders table", "The list of orders is slow.")),
    (("Upgrade Node on the build agents", "Node 20 on all four agents."),
     ("Upgrade the billing service to Java 17", "All modules.")),
    (("Export invoices as PDF", "Uses the render service."), ("Import invoices from email", "Nightly import.")),
    (("Implement user search", "Search users by name and e-mail."),
     ("Implement user deletion", "Delete users and all their data on request.")),
    (("Rate limit the public search API", "100 requests a minute per key."),
     ("Document the public search API", "Every endpoint with an example.")),
    (("Add unit to the temperature label", "°C."), ("Add unit tests for the thermostat", "Cover the edge cases.")),
    (("Retry failed sync operation", "When the server answers 409, try again."),
     ("Show failed sync operations", "A list in the status bar.")),
    (("Release 3.2 to the Play Store", "Roll out 3.2 to 10 percent of users."),
     ("Release 5.0 docs: install via new CLI", "Replace curl instructions.")),
    (("Count API usage", "Count requests."), ("Validate API input", "Refuse requests without a body.")),
    (("Make the dashboard load faster", "Under one second."), ("Make the tests run faster", "Under one minute.")),
    (("Refactor the parser module", "Split it by noun."), ("Refactor the scheduler module", "Split it by noun.")),
    (("Show a spinner while loading", "Spinner component exists."),
     ("Load newer savegames in the older engine", "Ignore unknown fields when loading.")),
    (("Investigate memory leak in worker", "RSS grows by 1 GB a day."),
     ("Investigate slow queries in the report", "Some take 30 s.")),
    (("Kundenimport aus CSV-Dateien beschleunigen", "Dauert zu lange."),
     ("Startseite neu gestalten", "Farben und Schrift nach dem neuen Handbuch.")),
    (("Fehler beim Speichern beheben", "Absturz in der Bildbearbeitung."),
     ("Fehler beim Drucken beheben", "Leere Seiten am Ende.")),
    (("Migrar la base de datos de facturas a PostgreSQL", "Sin interrupción del servicio."),
     ("Corregir los textos de la página de inicio", "Hay faltas de ortografía.")),
    (("Ajouter la pagination à la liste des commandes", "50 par page."),
     ("Ajouter un logo à la page d'accueil", "Le fichier est prêt.")),
    (("Перенести авторизацию на OAuth", ""), ("Добавить тёмную тему", "Для страницы настроек.")),
    (("为登录页面添加验证码", "防止暴力破解。"), ("为首页添加轮播图", "显示最新的活动。")),
    (("修复订单页面的显示错误", ""), ("修复用户列表的排序错误", "")),
    (("ログイン画面に二要素認証を追加", ""), ("商品一覧に検索機能を追加", "")),
    (("로그인 페이지에 이중 인증 추가", ""), ("상품 목록에 검색 기능 추가", "")),
    (("Stress test task 20 - Documentation update", ""), ("Write the stress tests of the scheduler", "")),
    (("Test Task 1", ""), ("Test the task list", "")),
    (("Support Fabric", "Library must support the new architecture."),
     ("Support French", "All texts of the library in French.")),
    (("Parse ISO week in the report filter", "Accept '2026-W07'."),
     ("Add a filter for the week to the menu plan", "")),
]  # fmt: skip

PAIRS = [*(Pair(True, *pair) for pair in ALIKE), *(Pair(False, *pair) for pair in APART)]
