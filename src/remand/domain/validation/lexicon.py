"""Small word lists in a dozen languages, and placeholders; each word is a weak hint among others."""

from __future__ import annotations

from remand.domain.reasons import RejectionReason
from remand.domain.text.words import phrase_set

WORD_LISTS = {
    "done": """
done merged closed finished completed complete released deployed resolved shipped delivered landed live published
fertig erledigt gemergt abgeschlossen geschlossen umgesetzt veröffentlicht ausgeliefert
hecho hecha terminado terminada cerrado cerrada fusionado completado completada resuelto publicado desplegado
fait faite terminé terminée fermé fermée fusionné fusionnée livré livrée résolu déployé publié
feito feita concluído concluída fechado fechada mesclado mesclada entregue resolvido publicado
fatto fatta chiuso chiusa completato completata risolto pubblicato unito
zrobione zamknięte zamknięty scalone scalony gotowe ukończone ukończony wdrożone zakończone
готово закрыт закрыта закрыто выполнено выполнена слит слито завершено завершена
完成 合并 已关 关闭 上线 发布 完了 済み 済ん 解決
""",
    "works": """
works work worked working passes passed pass ok okay succeeds succeeded success successful green fine fits identical
equal same possible reachable available reads loads runs
läuft lief funktioniert geht ging klappt besteht bestanden grün gleich identisch passt möglich erreichbar vorhanden
funciona funcionan funcionó pasa pasan pasó pasaron verde igual iguales idéntico correcto disponible posible
fonctionne fonctionnent marche marchent passe passent passés vert verte identique identiques disponible possible
funcionam passa passam passou passaram verde idêntico idênticos disponível possível
funziona funzionano passano verdi identico identici disponibile
działa działają przechodzi przechodzą zielone zielony identyczne dostępne możliwe
работает работают проходит проходят прошли доступен одинаковы одинаково
成功 通过 正常 可用 一致 相同 可行 没问 動作 動い 動く 同じ 可能 通る 通過
""",
    "fails": """
fails fail failed failing failure failures error errors exception refused refuses denied forbidden timeout timeouts
timed missing rejected rejects crash crashes crashed unavailable unreachable blocked broken breaks wrong lost overflow
overflowed unsupported unimplemented unauthorized invalid expired throws aborted aborts conflict prohibited mismatch
exceeded locked garbage stale unknown undefined stops declined
fehler fehlt fehlen fehlgeschlagen schlägt scheitert verweigert abgelehnt falsch kaputt bricht gesperrt ungültig
falla fallan falló fallaron fallo error falta faltan denegado rechazado rechaza prohibido incorrecto bloqueado
échoue échouent échec échecs erreur manque manquant refusé refusée refuse interdit bloqué bloquée cassé
falha falham falhou falharam erro falta faltam negado recusado rejeitado proibido bloqueado errado
errore fallisce falliscono fallito manca mancano rifiutato negato bloccato vietato
błąd błędy brak brakuje odrzucony odrzuca odmowa zablokowany niepowodzenie
ошибка ошибки отказ отказано нет отклонено запрещено сбой падает
失败 错误 报错 拒绝 超时 缺少 缺失 崩溃 被拒 不存 失敗 エラ 拒否 不足 見つ
""",
    "not": """
no not none never nothing cannot can't cant isn't doesn't don't won't without neither nor nobody nowhere zero non
kein keine keinen keiner keinem nicht nie nichts niemand ohne weder
sin ningún ninguna ninguno nunca nada nadie tampoco
pas aucun aucune jamais rien sans personne ni
não nenhum nenhuma nunca sem nada ninguém
nessun nessuna nessuno mai niente senza
nie brak bez żaden żadna żadne nikt nic
не нет без никто ничего нельзя никогда
""",
    "open": """
open opened pending unmerged review reviews draft planned scheduled started assigned waiting requested progress
queued approvals approval unreleased unpublished backlog
offen offene offenen geplant begonnen ausstehend prüfung
abierto abierta abiertos pendiente pendientes revisión planificado empezado iniciada
ouvert ouverte ouvertes attente revue prévu prévue commencé commencée
aberto aberta pendente revisão planejado planeado iniciado iniciada
aperto aperta attesa revisione pianificato
otwarte otwarty otwarta oczekuje przegląd zaplanowane rozpoczęte
открыт открыта открыто ожидает ревью запланировано начата
未合 未完 未开 未关 待审 评审 进行 未着 未マ レビ 審査
""",
    "permits": """
can may could fine ok allowed choice already existing exists exist either or available enough optional ready
provided supplied contains stored given
kann können darf erlaubt schon bereits vorhanden vorhandene vorhandenen oder genügt reicht liegt
puede pueden ya existe existen existente o permitido disponible basta
peut peuvent déjà existe existent existant existante ou permis autorisé suffit
pode podem já existe existem existente ou permitido basta
può possono già esiste esistente o permesso basta
może mogą już istnieje istniejący lub albo wystarczy
может можно уже есть существует или достаточно
可以 已有 已经 或者 现有 已在 既存 すで 可能 既に
""",
    "restricts": """
no not only all every must same without exactly single full fixed stay stays keep keeps never below above under
within most least each any entire both always strictly less
kein keine nur alle jede jeder muss müssen ohne genau einzige bleibt bleiben nie unter über höchstens mindestens immer
sin solo sólo todos todas cada debe deben exactamente único única menos máximo mínimo siempre ningún
sans seulement tous toutes chaque doit doivent exactement unique moins maximum minimum toujours aucun aucune
sem só somente todos todas cada deve devem exatamente único única menos máximo mínimo sempre nenhum
senza solo tutti tutte ogni deve devono esattamente sempre nessun
bez tylko wszystkie każdy musi muszą dokładnie zawsze żaden poniżej
без только все каждый должен должна должны ровно всегда
只能 必须 全部 所有 不能 不得 不许 以内 以下 のみ 必ず すべ 全て なし
""",
    "chooses": """
or either otherwise if else instead preferred preferably unless meanwhile alternatively option options
oder entweder sonst falls wenn andernfalls alternativ solange
o si sino alternativamente mientras
ou si sinon alternativement
se senão caso enquanto alternativamente
oppure altrimenti
albo lub jeśli inaczej
или если иначе либо
或者 否则 如果 要么 または ある もし それ あれ
""",
    "ready": """
ready prepared drafted attached branch patch prototype prototyped draft pr sketched written implemented built tested
merged quote
bereit vorbereitet fertig zweig entwurf geschrieben prototyp angehängt branch
listo lista preparado preparada rama borrador escrito adjunto prototipo
prêt prête préparé branche brouillon écrit joint prototype
pronto pronta preparado ramo rascunho escrito anexo protótipo
pronto ramo bozza scritto allegato prototipo
gotowy gotowa gotowe przygotowany gałąź szkic prototyp
готов готова готово ветка ветке черновик прототип
准备 分支 已写 草稿 原型 就绪 準備 ブラ 試作 下書
""",
    "asked": """
asked answered replied reply replies mailed emailed consulted pinged messaged inquired enquired responded phoned
gefragt fragte antwortete geantwortet angefragt nachgefragt rückfrage rückfragen nachfrage nachfragen anfrage angeschrieben
angerufen gemailt
pregunté preguntado preguntamos respondió contestó consulté consultado respuesta
demandé répondu répond interrogé réponse questionné
perguntei respondeu perguntado consultei resposta
chiesto risposto risposta
zapytałem zapytałam zapytano odpowiedział odpowiedziała spytałem pytanie odpowiedź odpowiedzi
спросил спросила спросили ответил ответила ответили ответ ответа уточнил уточнила
询问 问了 问过 回复 答复 提问 请教 咨询 已问 回答 质问 質問 聞い 聞き 返答 尋ね 問い 回答 返信 返事 照会
""",
    "answers": """
answered replied reply replies responded pinged antwortete geantwortet angefragt anfrage respondió contestó respuesta répondu répond
réponse respondeu resposta risposto risposta odpowiedział odpowiedziała odpowiedź odpowiedzi ответил ответила ответили ответ ответа
回复 答复 回答 返答 返信 返事
""",
    "contacted": """
wrote requested contacted response spoke talked discussed showed shown posted presented raised called met
antwort besprochen geschrieben gezeigt vorgelegt consulta escribí mostré hablé écrit contacté montré parlé escrevi mostrei falei
scritto contattato mostrato napisałem napisałam pokazałem написал написала обратился показал 联系 联络 沟通 展示 連絡 相談 見せ
""",
    "asks": """
whether which who whom ob welche welcher welches wer cuál cuáles quién quel quelle quels lequel qui qual quais quem quale
czy który która które kto ли который кто
是否 哪个 哪些 哪一 谁来 还是 かど どち どれ 誰が
""",
    "prefers": """
should prefer preferred preference clean cleaner proper properly nicer convenient elegant modern ugly style worth
better belongs belong easier comfortable deserves consistent nice taste opinion feel feels
sollte sollten lieber sauber sauberer besser schöner gehört bequem elegant unschön gefällt
debería prefiero mejor limpio cómodo elegante moderno feo gusta conviene
devrait préfère mieux propre pratique élégant moderne moche plaît convient
deveria prefiro melhor limpo cómodo elegante moderno feio gosto
dovrebbe preferisco meglio pulito comodo elegante
powinno powinien wolę lepiej czysto wygodniej elegancko ładniej
следует лучше чище удобнее красивее
应该 更好 优雅 规范 习惯 方便 喜欢 べき 好み 綺麗 きれ
""",
    "trivial": """
just simply trivial easy easily directly one-line one-liner line lines minute minutes min built-in builtin standard
flag option default switch
einfach trivial direkt zeile zeilen minute minuten leicht standard
simplemente trivial fácil directamente línea líneas minuto minutos
simplement trivial facile directement ligne lignes minute minutes
simplesmente trivial fácil diretamente linha linhas minuto minutos
semplicemente banale direttamente riga righe minuto minuti
prosto trywialne łatwo linia linijka linię minuta minut
просто легко строка строку минута минут
一行 简单 直接 分钟 只需 標準 簡単 一行 だけ 分で
""",
    "protocol": """
rejection reject rejected blocker blockers evidence evidenced requirement requirements required require requires
depend depends dependency dependencies conflict conflicts conflicting interpreted interpretation interpretations
director protocol classified classification classify decomposition decomposed decompose
criterion criteria minimum concrete alternative attempt attempts attempted
assessed assessment analysis analysed analyzed evaluation evaluated
reformulation reformulated stakeholder stakeholders infeasible infeasibility unclear
beleg belege nachweis abhängigkeit abhängigkeiten konflikt anforderung anforderungen bewertung interpretiert
blockade analyse kriterien alternative bewertet
evidencia evidencias dependencia conflicto requisito requisitos interpretado interpretación análisis analizado
analizada alternativa bloqueo criterio criterios
preuve preuves dépendance conflit exigence exigences interprété interprétation analyse analysé alternative blocage
évidence dependência conflito interpretado interpretação análise analisado analisada bloqueio evidência
prova dipendenza conflitto requisito interpretato analisi
dowód dowody zależność konflikt wymaganie wymagania analiza przeanalizowano interpretacja
доказательство зависимость конфликт требование требования анализ
证据 依赖 冲突 需求 分析 评估 解读 证明 根拠 依存 矛盾 要件 解釈 評価
""",
    "waits": """
wait waits waiting until first afterwards later next
warten wartet abwarten bis zuerst danach später
esperar espera hasta primero después luego
attendre attend jusqu'à d'abord ensuite après
esperar aguardar até primeiro depois
aspettare finché prima dopo poi
czekać poczekać aż najpierw potem później
ждать подождать пока сначала потом
等待 等到 之后 然后 再做 待つ 待っ 待ち まず 後で
""",
    "vague": """
complex complicated hard difficult confusing confused unclear missing information info context stuff something anything
things thing sure problem problems issue issues detail details someone somebody else other others people more some many
much needs need needed bigger smaller large larger somehow various general various task tasks team teams do does doing
work works impossible possible understand seems maybe probably first later want please provide proper good bad too
time everything all very really with this that from into have has been will would they them their there what which
about before after than then only when where such also both must should could can
schwierig komplex kompliziert unklar verwirrend fehlt information kontext etwas problem jemand anderer andere mehr
aufgabe aufgaben bitte alles sehr
difícil complejo complicado confuso falta información contexto algo problema alguien otro otra más tarea tareas todo
difficile complexe compliqué flou manque information contexte quelque chose problème quelqu'un autre plus tâche tout
complexo confuso informação contexto alguém outro outra mais tarefa tudo
complesso difficile informazioni contesto qualcosa qualcuno altro
trudne skomplikowane niejasne informacji kontekst coś ktoś inny więcej zadanie wszystko
сложно непонятно информации контекст кто-то другой больше задача всё
复杂 困难 不清 清楚 情况 信息 上下 下文 更多 澄清 任务 提供 问题 复雑 難し 不明 情報 誰か
""",
    "generic": """
code codebase base file files project projects repo repository documentation docs manual ticket tickets system systems module modules
component components approach approaches option options solution solutions way ways look looks looked looking read reads reading
review reviewed reviews check checked checking try tried tries trying attempted analyze analyzed analysed analyse analysis examine
examined investigate investigated explore explored study studied consider considered thought think spent spend carefully thoroughly
briefly several times closely deeply understood figure figured find finding found search searched browse browsed familiar structure
implement implements implemented implementing implementation proceed continue continues resume restart start starts started again
back available soon while whole entire part parts half step steps second third phase remaining rest remainder bigger grew grown
grows growth turned planned expected estimated estimate originally original actual actually described stated given same effort
discuss discussed discussion meeting talk talked better best clarify clarified clarification clarify explain explained explanation
meant mean means meaning exactly wanted wants expect expectation specify specified situation state status condition matter
happens happened happen goes going come comes came gets getting make makes made take takes took done finish happen
handle handles handled fix fixed fixes solve solved solution resolve correctly normal normally able unable attempt
still nobody nothing cannot anything everything really fully simply just yet now currently moment today
requested question questions answer answers ambiguous ambiguity interpretation interpretations unspecified undefined
give given hand over different engineer engineers developer developers human humans senior agent agents person assign assigned please
better nicer alternative alternatives suitable appropriate possible feasible however because therefore since during
code datei dateien projekt dokumentation ansatz lösung angesehen angeschaut gelesen geprüft versucht überlegt analysiert untersucht
weiter weitermachen fortfahren beginnen wieder verfügbar umsetzen umsetzung später gewachsen größer geplant erwartet beschrieben
bessere besser finden bitten bitte darum geben arbeit viel umfang gebraucht erforderlich zuerst klären klärung erklären gemeint genau gewünscht besprechen lage sache geht funktioniert fertig lösen machen
fichier fichiers projet documentation approche solution regardé regarder lu essayé réfléchi analysé examiné continuer reprendre périmètre grandi avant cela doit être
commencer disponible réaliser plus grand prévu décrit clarifier expliquer exactement voulu discuter situation chose faire résoudre
archivo archivos proyecto documentación enfoque solución mirado leído revisado probado intentado pensado analizado continuar
alcance creció mucho primero tiene reanudar empezar disponible implementar mayor previsto descrito aclarar explicar exactamente quiere discutir situación cosa hacer
resolver arquivo ficheiro projeto documentação abordagem solução olhei li tentei pensei analisei âmbito cresceu isto primeiro pedido continuar retomar começar
esclarecer explicar exatamente situação coisa fazer
progetto documentazione soluzione guardato letto provato pensato analizzato continuare chiarire spiegare situazione cosa fare
plik pliki projekt dokumentacja rozwiązanie przejrzałem przeczytałem próbowałem zakres urósł musi najpierw zrobione kontynuować wyjaśnić dokładnie sytuacja zrobić
код файл файлы проект документация решение посмотрел прочитал изучил попробовал подумал продолжить начать доступно объём вырос нужно сначала уточнить
объяснить именно ситуация сделать решить задачу задачи
代码 文件 项目 文档 方法 方案 看了 看过 阅读 查看 检查 尝试 试了 试过 考虑 研究 继续 开始 可用 实现 更大 计划 描述 说明 解释 明确 究竟 到底 讨论 完成 恢复 解决
进行 处理 合适 一些 一下 时间 认真 仔细 了解 范围 变大 大了 必须 先完 寻找 找更 更好 好的 的方
コー ード ファ イル 文書 方法 確認 検討 調査 調べ 読ん 見た 試し 続け 開始 再開 実装 対応 説明 明確 正確 相談 完了 解決 状況 理解 時間 資料 範囲 大き 必要 要が 先に 別の 要件 明確 確に にす する
""",
    "interprets": """
interpret interprets interpreted interpreting interpretation interpretations reading readings understood variant variants
either both versus vs whichever alternatively
interpretiert lesart lesarten verstanden gedeutet deutung deutungen entweder beide beiden beides variante varianten fassungen
interprété interprétée interpréter interprétation interprétations lecture lectures compris soit variante variantes
interpretar interpretado interpretada interpreté interpretación interpretaciones lectura lecturas entendido entendí variante variantes ambos ambas
interpretei interpretação interpretações leitura leituras entendi
interpretato interpretazione interpretazioni lettura letture entrambi entrambe
interpretacja interpretacje interpretacji zinterpretowano rozumiem wariant warianty oba obie
понял поняла трактовка трактовки трактую толкование вариант варианты оба обе либо прочтение прочтения
理解 解读 解释 两种 三种 方案 口径 还是 或是 解釈 両方 二通 三通 通り
""",
    "opposes": """
conflict conflicts conflicting contradict contradicts contradiction contradictory exclude excludes exclusive incompatible versus vs
against both simultaneously forbid forbids forbidden prohibits neither nor whereas mutually clash clashes violate violates opposite
irreconcilable together
konflikt widerspricht widersprechen widerspruch schließt schließen unvereinbar gegen beides beide zugleich gleichzeitig verbietet weder verletzt
conflit contredit contredisent contradiction exclut excluent incompatible incompatibles contre deux simultanément interdit viole
conflicto contradice contradicen contradicción excluye excluyen incompatible incompatibles contra ambos ambas simultáneamente prohíbe viola
conflito contradiz contradizem contradição exclui excluem incompatível incompatíveis contra ambos ambas proíbe
conflitto contraddice contraddicono contraddizione esclude escludono incompatibile incompatibili contro entrambi vieta
konflikt sprzeczne sprzeczny sprzeczność wyklucza wykluczają niezgodne oba obie zabrania
противоречит противоречат противоречие исключает исключают несовместимо несовместимы оба одновременно запрещает конфликт
冲突 矛盾 相悖 互斥 排斥 不能同 同时 抵触 禁止 両立 相反 排他 同時 衝突
""",
}
CLASSES: dict[str, tuple[str, ...]] = {}
"""The lists each word stands in."""
for _name, _words in WORD_LISTS.items():
    for _word in dict.fromkeys(_words.split()):
        CLASSES[_word] = (*CLASSES.get(_word, ()), _name)
GENERIC_STEMS = frozenset(word[:6] for word in WORD_LISTS["generic"].split())
"""The beginnings of the words that say nothing of this task in particular."""


PLACEHOLDERS = phrase_set("""
n/a, na, n.a, none, null, nil, nothing, todo, to do, tbd, tba, to be done, to be defined, to be determined
fixme, xxx, x, unknown, empty, see above, see below, see summary, see the summary, see detail, see details
see attached, see attachment, see the attachment, see task, see the task, see ticket, see the ticket
as above, as described above, same as above, same, same as summary, ditto, idem, placeholder, lorem ipsum
none given, not given, as discussed, blah, bla, no description, no description provided, no summary
no details provided, to be added, same as the summary, see the detail, see the details, test, asdf, dummy
text, summary, detail, details, description, reason, will add later, to follow, later, not applicable
no comment, no details, k.a, keine, keine angabe, keine angaben, siehe oben, siehe unten, s.o, s.u, wie oben
wird nachgereicht, folgt, entfällt, offen, voir ci-dessus, voir plus haut, voir résumé, à faire, à compléter
néant, sans objet, rien, aucun, aucune, s.o., ver arriba, véase arriba, ver resumen, igual que arriba
por hacer, pendiente, ninguno, ninguna, nada, no aplica, ver acima, ver resumo, por fazer, nenhum, nenhuma
não aplicável, a definir, pendente, vedi sopra, da fare, da definire, nessuno, nessuna, niente
non applicabile, jak wyżej, patrz wyżej, do zrobienia, brak, nie dotyczy, do uzupełnienia, см. выше, см выше
смотри выше, нет, не применимо, сделать, позже, н/д, как выше, 无, 没有, 见上, 见上文, 同上, 如上, 待定, 待补充, 暂无, 略, 不适用
待办, なし, 無し, 上記参照, 上記の通り, 上記のとおり, 未定, 未記入, 後で, 後ほど, 該当なし, 特になし
""")
"""What is written where nothing is said."""
_REASONS = frozenset(
    spelling
    for name in RejectionReason.__members__
    for spelling in (name.lower(), name.lower().replace("_", " "))
)
"""The reason's own name, which the record says already."""
_EDGES = " \t\r\n.,;:!?…-–—_*/\\()[]{}<>'\"`。、，；：！？「」（）#"


def is_placeholder(text: str) -> bool:
    """True for a text that says nothing: empty, only marks, or one of the words that fill a field."""
    bare = text.strip(_EDGES).casefold()
    words = " ".join(bare.split())
    return not any(char.isalnum() for char in bare) or words in PLACEHOLDERS or words in _REASONS
